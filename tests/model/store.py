"""An object store in memory whose every request is a step of its actor: what S3 promises, and nothing more."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fsspec import AbstractFileSystem

from tests.model.actors import Actor


@dataclass
class ModelStore:
    """`objects` maps a path to its content. With `loses_answers` the client never hears of a put that it made: it sends
    it again."""

    objects: dict[str, bytes] = field(default_factory=dict)
    loses_answers: bool = False
    now: Callable[[], float] = lambda: 0.0
    times: dict[str, float] = field(default_factory=dict)

    def put(self, path: str, data: bytes) -> None:
        self.objects[path] = data
        self.times[path] = self.now()

    def find(self, folder: str) -> dict[str, bytes]:
        return {path: found for path, found in sorted(self.objects.items()) if path.startswith(f"{folder}/")}


def etag(data: bytes) -> str:
    """As S3 has it: of the content."""
    return hashlib.md5(data).hexdigest()  # noqa: S324


class ModelFileSystem(AbstractFileSystem):
    """One actor's client of the store; without an actor, requests are no steps."""

    protocol = "s3"
    cachable = False

    def __init__(self, store: ModelStore, actor: Actor | None = None) -> None:
        super().__init__()
        self.store = store
        self.actor = actor

    def cat_file(self, path: str, start: Any = None, end: Any = None, **kwargs: Any) -> bytes:
        self._step()
        if path not in self.store.objects:
            self._told(None)
            raise FileNotFoundError(path)
        return self._told(self.store.objects[path])  # type: ignore[no-any-return]

    def pipe_file(
        self,
        path: str,
        value: bytes,
        mode: str = "overwrite",
        IfMatch: str | None = None,  # noqa: N803  (S3's name)
        **kwargs: Any,
    ) -> None:
        for _ in range(2 if self.store.loses_answers else 1):
            self._step()
            there = self.store.objects.get(path)
            is_other = IfMatch is not None and (there is None or etag(there) != IfMatch)
            refused = is_other or (mode == "create" and there is not None)
            self._told(refused)
            if refused:
                raise FileExistsError(path)
            self.store.put(path, value)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        self._step()
        there = self.store.objects.get(path1)
        self._told(there is None)
        if there is None:
            raise FileNotFoundError(path1)
        self.store.put(path2, there)

    def rm_file(self, path: str) -> None:
        self._step()
        self.store.objects.pop(path, None)

    def rm(self, path: str | list[str], recursive: bool = False, maxdepth: int | None = None) -> None:
        for each in [path] if isinstance(path, str) else path:
            self.rm_file(each)  # a deletion in bulk is none at once

    def find(self, path: str, maxdepth: Any = None, withdirs: bool = False, detail: bool = False, **kwargs: Any) -> Any:
        self._step()
        found = {
            name: {
                "name": name,
                "size": len(data),
                "type": "file",
                "ETag": etag(data),
                "mtime": self.store.times.get(name, 0.0),
            }
            for name, data in self.store.find(path.rstrip("/")).items()
        }
        self._told([(name, info["size"], info["ETag"] if detail else "") for name, info in found.items()])
        return found if detail else list(found)

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        self._step()
        there = self.store.objects.get(path)
        self._told(there)
        if there is None:
            raise FileNotFoundError(path)
        return {
            "name": path,
            "size": len(there),
            "type": "file",
            "ETag": etag(there),
            "mtime": self.store.times.get(path, 0.0),
        }

    def _step(self) -> None:
        if self.actor is not None:
            self.actor.call()

    def _told(self, answer: Any) -> Any:
        if self.actor is not None:
            self.actor.told(answer)
        return answer
