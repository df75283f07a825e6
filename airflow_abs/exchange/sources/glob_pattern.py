"""Hadoop's glob patterns, so that Airflow and Spark find the same files: `*`, `?`, `[a-c]`, `[^a]`, `{a,b}`, `\\x`.

A `*` does not cross a `/`, `**` means no more than `*`, braces may hold separators.
https://hadoop.apache.org/docs/stable/api/org/apache/hadoop/fs/FileSystem.html#globStatus-org.apache.hadoop.fs.Path-
"""

from __future__ import annotations

import re

_SPECIAL = frozenset("{}[]*?\\")
_MEMBER = re.compile(r"(\\.|.)(?:(-)(\\.|.))?", re.DOTALL)  # of a class: a character, or a range of them


def is_glob(text: str) -> bool:
    """Whether Spark takes a path as a pattern."""
    return not _SPECIAL.isdisjoint(text)


def expand_braces(pattern: str) -> list[str]:
    """All alternatives of `{a,b}`, nested ones too, in order; escapes stay as they are.

    Raises:
        ValueError: a brace is not closed.
    """
    opening = _find(pattern, "{", 0)
    if opening < 0:
        return [pattern]
    parts, depth, start = [], 0, opening + 1
    for position, character in _unescaped(pattern, opening):
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
        if depth == 0 or (depth == 1 and character == ","):
            parts.append(pattern[start:position])
            start = position + 1
        if depth == 0:
            head, tail = pattern[:opening], pattern[start:]
            return [whole for part in parts for whole in expand_braces(head + part + tail)]
    raise ValueError(f"pattern {pattern!r}: a '{{' is not closed")


def compile_name(pattern: str) -> re.Pattern[str]:
    """The regular expression that one name (no `/`, braces expanded) must match in full.

    Raises:
        ValueError: a bracket is not closed, or the pattern ends in a backslash.
    """
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == "[":
            # a `]` right after the `[` stands for itself, an escaped one anywhere
            end = _find(pattern, "]", position + (1 if pattern[position + 1 : position + 2] == "\\" else 2))
            if end < 0:
                raise ValueError(f"pattern {pattern!r}: a '[' is not closed")
            parts.append(_character_class(pattern[position + 1 : end]))
            position = end
        elif character == "\\":
            position += 1
            if position == len(pattern):
                raise ValueError(f"pattern {pattern!r}: ends in a backslash")
            parts.append(re.escape(pattern[position]))
        else:
            parts.append({"*": ".*", "?": "."}.get(character) or re.escape(character))
        position += 1
    try:
        return re.compile("".join(parts), re.DOTALL)
    except re.error as error:
        raise ValueError(f"pattern {pattern!r}: {error.msg}") from error


def unescape_name(pattern: str) -> str:
    """The name that a pattern without wildcards stands for."""
    return re.sub(r"\\(.)", r"\1", pattern, flags=re.DOTALL)


def _character_class(inside: str) -> str:
    """The same in Python, which warns of characters that may come to mean something; what is escaped already stays."""
    negated = inside[0] in "^!"
    members = _MEMBER.findall(inside[1:] if negated else inside)
    escaped = (f"{_escape(low)}{dash}{_escape(high)}" for low, dash, high in members)
    return f"[{'^' if negated else ''}{''.join(escaped)}]"


def _escape(character: str) -> str:
    return f"\\{character}" if character and character in "[]&~|^-" else character


def _find(pattern: str, wanted: str, start: int) -> int:
    return next((position for position, character in _unescaped(pattern, start) if character == wanted), -1)


def _unescaped(pattern: str, start: int) -> list[tuple[int, str]]:
    """Characters from `start` on that no backslash precedes, with their positions."""
    found = []
    position = start
    while position < len(pattern):
        if pattern[position] == "\\":
            position += 1
        else:
            found.append((position, pattern[position]))
        position += 1
    return found
