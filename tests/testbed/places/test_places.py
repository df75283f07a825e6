"""What a place brings, and how it refuses a host; without a download."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_abs.spark.server.free_ports import choose_free_ports
from testbed.places import compose_images, container_engine, programs
from testbed.places.__main__ import main
from testbed.places.kafka_broker import kafka_broker
from testbed.places.place import PlaceError
from testbed.places.s3_gateway import S3Gateway
from testbed.places.served import Served
from testbed.places.yarn import YarnCluster

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("place", ["kafka", "s3", "yarn"])
def test_a_host_that_cannot_is_refused_in_one_sentence(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "FOLDER", tmp_path / "places")
    assert main(place) == 1
    told = capsys.readouterr()
    assert told.out.startswith(f"{place}: fetching ")
    assert told.err.startswith(f"{place} cannot run on this host: mvn, java")
    assert not (tmp_path / "places").exists()


def test_a_host_without_a_container_engine_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(container_engine, "search_path", lambda: str(tmp_path))
    monkeypatch.setattr(compose_images, "_MADE", tmp_path / "images")
    assert main("compose") == 1
    told = capsys.readouterr().err
    assert told.startswith("compose cannot run on this host: dockerd, docker, ")
    assert "(Debian: apt-get install --no-install-recommends debootstrap docker.io " in told
    assert told.count("\n") == 1


def test_rules_and_networks_of_the_engine_are_told_from_those_of_others() -> None:
    ours = (
        "-A FORWARD -j DOCKER-USER",
        "-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE",
        "br-0123456789ab",
    )
    assert all(container_engine._ITS_RULES.search(each) for each in ours)
    assert not container_engine._ITS_RULES.search("-A FORWARD -i cni0 -j ACCEPT")


def test_a_place_that_nobody_knows_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("moon") == 2
    assert (
        capsys.readouterr().err
        == "python -m testbed.places: found 'moon', expected one of kafka, s3, yarn, kubernetes, compose\n"
    )


def test_a_server_comes_back_at_its_address_and_one_that_does_not_come_is_told(tmp_path: Path) -> None:
    script = "import http.server, sys; http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), None).serve_forever()"
    (port,) = choose_free_ports(1)
    with Served(["python3", "-c", script, str(port)], port, tmp_path / "log") as server:
        server.kill()
        assert not server.accepts()
        server.start()
        assert server.accepts()
    assert not server.accepts()
    with pytest.raises(PlaceError, match=r"^sh does not accept connections at 127.0.0.1:\d+: (?s:.*)no such thing"):
        Served(["sh", "-c", "echo no such thing; exit 1"], port, tmp_path / "other").start()


def test_a_gateways_requests_are_counted_by_what_was_asked(tmp_path: Path) -> None:
    store = S3Gateway.at(tmp_path / "s3")
    line = "owner lake [25/Nov/2026:10:00:00 +0000] 127.0.0.1 places - s3_{} orders - 200\n"
    (tmp_path / "s3" / "requests.log").write_text("".join(map(line.format, ("GetObject", "HeadObject", "GetObject"))))
    assert store.requests() == {"GetObject": 2, "HeadObject": 1}
    assert "not-a-secret" not in str(store.server.command)


def test_everything_of_kafka_stays_on_loopback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "FOLDER", tmp_path)
    with pytest.raises(PlaceError, match=r"Kafka's storage tool ended with 1: (?s:.*)StorageTool"):
        kafka_broker(tmp_path)  # no jar is there
    hosts = re.findall(r"(?://|@)([\w.]+):\d+", (tmp_path / "server.properties").read_text())
    assert set(hosts) == {"127.0.0.1"}


def test_everything_of_yarn_stays_on_loopback_and_knows_its_own_name(tmp_path: Path) -> None:
    yarn = YarnCluster.at(tmp_path / "yarn")
    rows = re.findall(
        r"<name>([\w.-]+address)</name><value>([\w.]+):(\d+)<", (yarn.folder / "conf" / "yarn-site.xml").read_text()
    )
    assert {host for _, host, _ in rows} == {"127.0.0.1"}
    assert len({port for *_, port in rows}) == len(rows) == 9
    assert yarn.manager.address in [f"{host}:{port}" for _, host, port in rows]
    assert yarn.connection["extra"] == {"yarn_resourcemanager_webapp_address": f"http://{yarn.manager.address}"}


def test_the_targets_stay_out_of_make_test() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert "SAMPLE := sample or not (spark or services or cluster or places or slow)" in makefile
    for path in (ROOT / "tests" / "places").glob("test_*.py"):
        assert re.search(r"^pytestmark = \[pytest.mark.places, pytest.mark.spark", path.read_text(), re.MULTILINE), path
