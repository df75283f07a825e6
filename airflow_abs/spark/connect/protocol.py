"""The Spark Connect protocol (messages and service stub) without the weight of pyspark.

A trigger needs a few generated classes, not the DataFrame API. The ordinary `import pyspark.sql.connect.proto` first
imports its parent packages, which load pandas and Arrow and block an event loop for half a second. The generated
modules refer to one another only by their full names, so they are loaded here from their folder under their real
names, each before those that need it (then nothing ever asks for a parent package), and taken out of `sys.modules`
again. A finder gives the very same modules to a real `import pyspark...` that comes later: the protobuf registry
would refuse a second set of classes.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import re
import sys
import threading
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

_PACKAGE = "pyspark.sql.connect.proto"
# Each after those that it imports. A module missing here would still load, only slowly, by way of all of pyspark.
_MODULES = (
    "types_pb2",
    "common_pb2",
    "expressions_pb2",
    "catalog_pb2",
    "ml_common_pb2",
    "relations_pb2",
    "ml_pb2",
    "pipelines_pb2",
    "commands_pb2",
    "base_pb2",
    "base_pb2_grpc",
)
_loading = threading.Lock()
_loaded: dict[str, ModuleType] = {}


class PysparkMissingError(ImportError):
    """The Spark Connect client is not installed, or only a part of it."""


def protos() -> Any:
    """The module `pyspark.sql.connect.proto`: every message class and `SparkConnectServiceStub`.

    The same module object as a later (or earlier) real `import pyspark.sql.connect.proto` gives. The first call
    takes some 50 ms, further ones nothing. Safe to call from several threads. Not guarded: another thread that
    runs the first real import of the same package in the very same milliseconds.

    Raises:
        PysparkMissingError: there is no pyspark, or it has no Connect protocol.
    """
    if _PACKAGE not in _loaded:
        with _loading:
            if _PACKAGE not in _loaded:
                _loaded.update(_imported() or _load())
                _allow_deep_messages()
    return _loaded[_PACKAGE]


def _allow_deep_messages() -> None:
    """A transform of fifty steps is a message a hundred deep, and protobuf reads no deeper one unless it is told to."""
    from google._upb import _message  # the only way to say so; a test fails if it goes

    _message.SetAllowOversizeProtos(True)


def _imported() -> dict[str, ModuleType]:
    """The protocol modules that a real import has brought, all of them or none."""
    if f"{_PACKAGE}.{_MODULES[-1]}" not in sys.modules:
        return {}
    return {name: module for name, module in sys.modules.items() if _is_ours(name)}


def _is_ours(name: str) -> bool:
    return name == _PACKAGE or name.startswith(_PACKAGE + ".")


def _load() -> dict[str, ModuleType]:
    folder = pyspark_folder() / "sql" / "connect" / "proto"
    spec = importlib.util.spec_from_file_location(
        _PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None or not (folder / "__init__.py").is_file():
        raise PysparkMissingError(
            f"airflow_abs found pyspark in {folder.parents[2]}, but no Spark Connect protocol in it; "
            "install pyspark and pyspark-client in the same version"
        )
    package = importlib.util.module_from_spec(spec)
    sys.modules[_PACKAGE] = package
    try:
        for name in _MODULES:
            if (folder / f"{name}.py").is_file():  # Spark 4.0's client has fewer
                importlib.import_module(f"{_PACKAGE}.{name}")
        spec.loader.exec_module(package)
        modules = {name: module for name, module in sys.modules.items() if _is_ours(name)}
    finally:
        for name in [name for name in sys.modules if _is_ours(name)]:
            del sys.modules[name]
    sys.meta_path.insert(0, _LoadedModules(modules))
    return modules


class _LoadedModules(MetaPathFinder, Loader):
    """Hands modules that are already loaded to a real import."""

    def __init__(self, modules: dict[str, ModuleType]) -> None:
        self._modules = modules

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        module = self._modules.get(fullname)
        if module is None:
            return None
        spec = ModuleSpec(fullname, self, origin=module.__file__, is_package=hasattr(module, "__path__"))
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.extend(module.__path__)
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: it was executed when it was first loaded."""


def pyspark_folder() -> Path:
    """The folder of the installed pyspark, found without importing it.

    Raises:
        PysparkMissingError: there is none.
    """
    imported = sys.modules.get("pyspark")
    spec = imported.__spec__ if imported is not None else importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise PysparkMissingError("airflow_abs found no pyspark in this Python; install pyspark-client")
    return Path(spec.submodule_search_locations[0])


def check_one_release() -> None:
    """That `pyspark` and `pyspark-client`, which write the same folder, are of one release where both are installed.

    Raises:
        PysparkMissingError: their files are mixed; says what to install.
    """
    found = {each: _installed_version(each) for each in ("pyspark", "pyspark-client")}
    whole, client = found["pyspark"], found["pyspark-client"]
    if whole is not None and client is not None and whole != client:
        raise PysparkMissingError(
            f"this Python has pyspark {whole} and pyspark-client {client}, which overwrite each other's files; "
            f"expected one release: pip install --force-reinstall --no-deps pyspark=={whole} pyspark-client=={whole}"
        )


def _installed_version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def client_version() -> str:
    """The version of the installed pyspark, like "4.2.0", read from its file without importing it."""
    file = pyspark_folder() / "version.py"
    found = re.search(r"__version__[^=]*=\s*['\"]([^'\"]+)['\"]", file.read_text(encoding="utf-8"))
    if found is None:
        raise PysparkMissingError(f"airflow_abs cannot read the version of pyspark from {file}; reinstall pyspark")
    return found.group(1)
