"""The parts of the Kubernetes node that are the testbed's own; without a node."""

from __future__ import annotations

import json
import struct
import sys
import tarfile
from pathlib import Path

import pytest

from testbed.places import kubernetes_programs
from testbed.places.__main__ import main
from testbed.places.kubernetes_node.names import reply
from testbed.places.kubernetes_programs import write_image


class Services:
    def find(self, labels: list[str]) -> list[str]:
        if labels == ["broken", "spark", "svc", "cluster", "local"]:
            raise TimeoutError("the API does not answer")
        return ["10.0.0.7", "10.0.0.8"] if labels == ["driver-svc", "spark", "svc", "cluster", "local"] else []


def ask(name: str, kind: int = 1) -> tuple[int, list[bytes]]:
    """Code of the answer, and its addresses."""
    labels = b"".join(bytes([len(each)]) + each.encode() for each in name.split("."))
    query = struct.pack("!HHHHHH", 77, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", kind, 1)
    answer = reply(query, Services())
    number, flags, questions, records = struct.unpack("!HHHH", answer[:8])
    assert (number, questions, answer[12 : len(query)]) == (77, 1, query[12:])
    rest = answer[len(query) :]
    assert len(rest) == 16 * records
    return flags & 0xF, [rest[16 * each + 12 : 16 * each + 16] for each in range(records)]


def test_a_service_has_its_addresses_and_no_other_kind_of_record() -> None:
    assert ask("Driver-svc.spark.svc.cluster.local") == (0, [b"\x0a\0\0\x07", b"\x0a\0\0\x08"])
    assert ask("driver-svc.spark.svc.cluster.local", kind=28) == (0, [])


def test_a_name_that_is_not_there_is_denied_and_one_that_cannot_be_asked_about_is_an_error() -> None:
    assert ask("nobody.spark.svc.cluster.local") == (3, [])
    assert ask("broken.spark.svc.cluster.local") == (2, [])


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()


def test_an_image_names_the_layers_that_it_has(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "pause").write_text("a program")
    write_image(tmp_path / "image.tar", "test/pause:1", [tmp_path / "root"], ["/pause"])
    with tarfile.open(tmp_path / "image.tar") as archive:
        (manifest,) = json.loads(_read(archive, "manifest.json"))
        config = json.loads(_read(archive, manifest["Config"]))
        (layer,) = manifest["Layers"]
        assert config["rootfs"]["diff_ids"] == [f"sha256:{layer.partition('/')[0]}"]
        with tarfile.open(fileobj=archive.extractfile(layer)) as files:
            assert "./pause" in files.getnames()
    assert manifest["RepoTags"] == ["test/pause:1"]
    assert config["config"]["Entrypoint"] == ["/pause"]
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["image.tar"]


def test_a_host_without_the_programs_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(kubernetes_programs, "search_path", lambda: str(tmp_path))
    monkeypatch.setattr(kubernetes_programs, "PROGRAMS", tmp_path / "programs")
    monkeypatch.setattr(kubernetes_programs, "_SUITES", {sys.version_info[:2]: "a Debian with this Python"})
    assert main("kubernetes") == 1
    told = capsys.readouterr()
    assert told.out.startswith("kubernetes: fetching Kubernetes 1.34.4, which Go builds (10 minutes of CPU)")
    assert told.err.startswith("kubernetes cannot run on this host: containerd, ctr, runc, iptables, ")
    assert "(Debian: apt-get install " in told.err
    assert told.err.count("\n") == 1
    assert not (tmp_path / "programs").exists()
