"""Calls of functions in SQL text: found and rewritten without a parser, which Spark has and does not lend out."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

Rewrite = Callable[[str, Sequence[str]], str | None]
"""From a function's lower-case name and the texts of its arguments to what replaces the call; None leaves it."""

_TOKEN = re.compile(
    r"""
      '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*`   # strings and quoted names: Spark's `''` is two strings here
    | --[^\n]* | /\*.*?\*/                              # comments
    | (?P<name>[A-Za-z_]\w*)
    | (?P<mark>[(),])
    """,
    re.VERBOSE | re.DOTALL,
)


def rewrite_calls(text: str, names: Collection[str], rewrite: Rewrite) -> str:
    """`text` with every call of one of `names` (lower case) replaced, innermost first.

    What stands in strings, quoted names and comments is left alone, and so is a name without parentheses, or behind a
    dot.
    """
    done, position = [], 0
    for match in _TOKEN.finditer(text):
        name = match["name"]
        if match.start() < position or name is None or name.lower() not in names or _is_qualified(text, match.start()):
            continue
        found = _arguments(text, match.end())
        if found is None:
            continue
        spans, stop = found
        arguments = [rewrite_calls(text[first:last], names, rewrite).strip() for first, last in spans]
        own = f"{name}({', '.join(arguments)})"
        replaced = rewrite(name.lower(), arguments)
        done += [text[position : match.start()], own if replaced is None else replaced]
        position = stop
    return "".join(done) + text[position:]


def rewrite_keywords(text: str, names: Collection[str], rewrite: Rewrite) -> str:
    """`text` with every bare one of `names` replaced: neither called, nor behind a dot or ``AS``."""
    done, position, before = [], 0, ""
    for match in _TOKEN.finditer(text):
        name = (match["name"] or "").lower()
        is_called = text[match.end() :].lstrip().startswith("(")
        if name in names and not is_called and before != "as" and not _is_qualified(text, match.start()):
            replaced = rewrite(name, ())
            if replaced is not None:
                done += [text[position : match.start()], replaced]
                position = match.end()
        before = name
    return "".join(done) + text[position:]


def _arguments(text: str, after_name: int) -> tuple[list[tuple[int, int]], int] | None:
    """Where the arguments of a call stand, and where it ends; None if no call follows."""
    opening = re.compile(r"\s*\(").match(text, after_name)
    if opening is None:
        return None
    depth, start, spans = 1, opening.end(), list[tuple[int, int]]()
    for match in _TOKEN.finditer(text, opening.end()):
        mark = match["mark"]
        depth += {"(": 1, ")": -1}.get(mark or "", 0)
        if depth == 0 or (mark == "," and depth == 1):
            spans.append((start, match.start()))
            start = match.end()
        if depth == 0:
            is_empty = len(spans) == 1 and not text[slice(*spans[0])].strip()
            return ([] if is_empty else spans), match.end()
    return None


def _is_qualified(text: str, start: int) -> bool:
    return text[:start].rstrip().endswith(".")
