"""What docs/reference/api.md quotes, from the docstrings: `python -m tests.docs.api_page` writes it anew."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "api.md"
_QUOTE = re.compile(r"<!-- (airflow_abs[\w.]*\w)(?:: ([\w, *]+))? -->\n(?:\n```text\n.*?\n```\n)?", flags=re.DOTALL)
_WIDTH = 110


def written(page: str) -> str:
    """The page with each quote as it has to be."""
    return _QUOTE.sub(lambda found: f"{found[0].splitlines()[0]}\n\n```text\n{_quote(found[1], found[2])}\n```\n", page)


def _quote(path: str, members: str | None) -> str:
    module, _, name = path.rpartition(".")
    if name == "errors":
        found = import_module(path)
        return "\n\n".join([_doc(found), *(_described(each.__name__, each) for each in _errors(found))])
    found = getattr(import_module(module), name)
    if not callable(found):
        return f"{name} = {found!r}"
    parts = [_described(name, found)]
    for member in _public(found) if members == "*" else re.findall(r"\w+", members or ""):
        value = inspect.getattr_static(found, member)
        shown = f"{member}: property" if isinstance(value, property) else member + _signature(getattr(found, member))
        parts.append(f"{shown}\n{_indented(_doc(getattr(found, member)))}".rstrip())
    return "\n\n".join(parts)


def _described(name: str, found: Any) -> str:
    if inspect.isclass(found) and issubclass(found, BaseException):
        return f"{name}({', '.join(base.__name__ for base in found.__bases__)})\n{_indented(_doc(found))}".rstrip()
    return f"{name}{_signature(found)}\n\n{_doc(found)}".rstrip()


def _public(found: Any) -> list[str]:
    return [name for name, value in vars(found).items() if name[0] != "_" and not isinstance(value, str)]


def _errors(module: Any) -> list[Any]:
    return [
        each
        for each in vars(module).values()
        if inspect.isclass(each) and each.__module__ == module.__name__ and issubclass(each, BaseException)
    ]


def _signature(found: Any) -> str:
    try:
        signature = inspect.signature(found)
    except ValueError:
        return ""
    shown = _plain(str(signature))
    if shown.startswith("(*args, **kwargs)"):  # of a protocol, which nobody calls
        return ""
    if len(shown) < _WIDTH:
        return shown
    parameters = [_plain(str(each)) for each in signature.parameters.values()]
    named = [each.kind is each.KEYWORD_ONLY for each in signature.parameters.values()]
    has_star = any(each.kind is each.VAR_POSITIONAL for each in signature.parameters.values())
    if any(named) and not has_star:
        parameters.insert(named.index(True), "*")
    returned = shown.rpartition(")")[2]
    return "(\n" + "".join(f"    {each},\n" for each in parameters) + ")" + returned


def _plain(shown: str) -> str:
    """Without quotes around annotations; a default that is made for each object, or a function, is an ellipsis."""
    return re.sub(r"<factory>|<function [^>]*>", "...", re.sub(r"(: |-> )'([^']*)'", r"\1\2", shown))


def _doc(found: Any) -> str:
    return (inspect.getdoc(found) or "").replace("``", "`")


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
