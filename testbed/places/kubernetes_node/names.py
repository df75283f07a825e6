"""Answers pods that ask for a service's name, by DNS, from what the API server says at each question.

    names.py ADDRESS API CA CERTIFICATE KEY

A name of a service is its cluster address, or those of a headless service's endpoints; no other name is known. It
stands in for CoreDNS, and imports only Python's own modules.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
import sys
import urllib.error
import urllib.request
from threading import Thread
from typing import Any

_FAILED, _NO_SUCH_NAME, _A = 2, 3, 1
_SECONDS = 5


class Services:
    """As the API server knows them."""

    def __init__(self, api: str, ca: str, certificate: str, key: str) -> None:
        self._api, self._context = api, ssl.create_default_context(cafile=ca)
        self._context.load_cert_chain(certificate, key)

    def find(self, labels: list[str]) -> list[str]:
        """Its addresses; none if there is no such name."""
        if len(labels) != 5 or labels[2:] != ["svc", "cluster", "local"]:
            return []
        name, namespace = labels[:2]
        service = self._get(f"/api/v1/namespaces/{namespace}/services/{name}")
        if service is None:
            return []
        if service["spec"].get("clusterIP", "None") != "None":
            return [service["spec"]["clusterIP"]]
        of = f"endpointslices?labelSelector=kubernetes.io/service-name%3D{name}"
        slices = self._get(f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/{of}") or {"items": []}
        early = service["spec"].get("publishNotReadyAddresses", False)
        endpoints = [each for found in slices["items"] for each in found["endpoints"] or ()]
        ready = [each for each in endpoints if early or each["conditions"].get("ready", True)]
        return [address for each in ready for address in each["addresses"]]

    def _get(self, path: str) -> Any:
        """None for what is not there."""
        try:
            asked = urllib.request.urlopen(self._api + path, context=self._context, timeout=_SECONDS)  # noqa: S310
            with asked as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise


def reply(query: bytes, services: Services) -> bytes:
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode().lower())
        at += 1 + query[at]
    question = query[12 : at + 5]
    (kind,) = struct.unpack("!H", query[at + 1 : at + 3])
    try:
        found = services.find(labels)
        code = 0 if found else _NO_SUCH_NAME
    except (OSError, ValueError) as error:
        print(".".join(labels), error, flush=True)
        found, code = [], _FAILED
    records = [struct.pack("!HHHIH4s", 0xC00C, _A, 1, 1, 4, socket.inet_aton(each)) for each in found if kind == _A]
    return query[:2] + struct.pack("!HHHHH", 0x8580 | code, 1, len(records), 0, 0) + question + b"".join(records)


def main(address: str, *api: str) -> None:
    services = Services(*api)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 53))
        while True:
            query, peer = server.recvfrom(4096)
            Thread(target=lambda q, p: server.sendto(reply(q, services), p), args=(query, peer), daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
