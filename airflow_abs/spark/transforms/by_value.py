"""Python functions of transforms travel whole: the Spark server can import neither a DAG file nor what lies beside it.

A user-defined function is pickled when its DataFrame is first asked for columns, which may be in the middle of a
transform that has just imported the function's module. So what is loaded from outside of the installed packages is
looked up before each pickling. Installed packages, and what `py_files` bring, are on the server: they are named there.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

from airflow_abs.spark.connect.protocol import pyspark_folder
from airflow_abs.spark.connect.shared_change import shared

_OURS = __name__.partition(".")[0]
_FOUND_BY_PICKLE = frozenset({"__main__", "__mp_main__"})
_registering = Lock()
_shipped: Counter[Path] = Counter()
"""The `py_files` of plans that compile now."""


@shared
@contextmanager
def pickled_by_value() -> Iterator[None]:
    """Inside the block functions and classes of modules that no server can import are pickled with their code."""
    from pyspark import cloudpickle
    from pyspark.serializers import CloudPickleSerializer

    registered: dict[str, ModuleType] = {}
    seen: set[str] = set()
    before = CloudPickleSerializer.dumps

    def dumps(self: Any, obj: Any) -> Any:
        with _registering:
            _register(registered, seen)
        return before(self, obj)

    CloudPickleSerializer.dumps = dumps
    try:
        yield
    finally:
        CloudPickleSerializer.dumps = before
        with _registering:
            known = cloudpickle.list_registry_pickle_by_value()
            for name, module in registered.items():
                if name in known:
                    cloudpickle.unregister_pickle_by_value(module)


def _register(registered: dict[str, ModuleType], seen: set[str]) -> None:
    """Register all modules that were loaded since with cloudpickle; registrations by others stay."""
    from pyspark import cloudpickle

    known = cloudpickle.list_registry_pickle_by_value()
    for name, module in list(sys.modules.items()):
        if name in seen:
            continue
        seen.add(name)
        if name not in known and getattr(module, "__name__", None) == name and is_authors(name, module):
            cloudpickle.register_pickle_by_value(module)
            registered[name] = module


def is_authors(name: str, module: Any) -> bool:
    """Whether a module is a file of the author's: not installed, not Python's, not this package's."""
    if name in _FOUND_BY_PICKLE or name.partition(".")[0] == _OURS:
        return False
    file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
    if not isinstance(file, str) or file.startswith(_installed()) or not Path(file).is_absolute():
        return False
    if any(Path(file).is_relative_to(folder) for folder in +_shipped):
        return False
    depth = name.count(".") + (Path(file).name == "__init__.py")
    return not _holds_distributions(Path(file).parents[depth])


@cache
def _installed() -> tuple[str, ...]:
    """How the paths of installed files begin. As text: paths take five times as long, for 3,000 modules."""
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders = [Path(path) for path in (*paths, *site.getsitepackages(), site.getusersitepackages())]
    folders.append(pyspark_folder().parent)  # of a Spark distribution, if it is not pip's
    return tuple({f"{each}{os.sep}" for folder in folders for each in (folder, folder.resolve())})


@cache
def _holds_distributions(folder: Path) -> bool:
    """Whether pip installed to it (`pip install --target`)."""
    return any(folder.glob("*.dist-info"))


@contextmanager
def importable(py_files: Sequence[Path]) -> Iterator[None]:
    """Inside the block transforms import from these files, as functions do on the server that has been sent them.

    What was imported from them is forgotten afterwards: the next job may have other files of these names.
    """
    found = [str(file.parent if file.suffix == ".py" else file) for file in py_files]
    with _registering:
        _shipped.update(py_files)
    sys.path.extend(found)
    try:
        yield
    finally:
        sys.path[:] = [path for path in sys.path if path not in found]
        with _registering:
            _shipped.subtract(py_files)
        for name, module in list(sys.modules.items()):
            if any(Path(getattr(module, "__file__", None) or "").is_relative_to(file) for file in py_files):
                del sys.modules[name]
