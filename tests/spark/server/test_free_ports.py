"""Ports for services that are told theirs before they start."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from airflow_abs.spark.server import free_ports
from airflow_abs.spark.server.free_ports import choose_free_ports


def test_they_are_different_and_can_be_listened_on() -> None:
    ports = choose_free_ports(20)
    assert len(set(ports)) == 20
    sockets = [socket.create_server(("127.0.0.1", port)) for port in ports]
    for each in sockets:
        each.close()


def test_none_is_one_that_the_system_gives_to_whoever_asks_for_any() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    if first < 16_000:
        pytest.skip("this host's own range leaves no ports below it")
    assert max(choose_free_ports(50)) < first


def test_one_that_is_listened_on_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    free, taken = choose_free_ports(2)
    monkeypatch.setattr(free_ports, "_candidates", lambda: [free, taken])
    with socket.create_server(("127.0.0.1", taken)):
        assert choose_free_ports(1) == [free]


@pytest.mark.parametrize("own_range", ["1024 65535\n", "15500 60999\n"])
def test_where_the_systems_own_range_leaves_too_few_the_system_chooses(
    own_range: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ip_local_port_range"
    file.write_text(own_range)
    monkeypatch.setattr(free_ports, "_OWN_RANGE", file)
    assert len(set(choose_free_ports(3))) == 3


def test_a_host_that_does_not_say_its_range_chooses_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_ports, "_OWN_RANGE", tmp_path / "none")
    assert len(set(choose_free_ports(3))) == 3
