from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.exchange.sources.glob_pattern import compile_name, expand_braces, is_glob, unescape_name


@pytest.mark.parametrize(
    ("pattern", "matches", "misses"),
    [
        ("*.parquet", ["a.parquet", ".parquet"], ["a.csv", "a.parquet.gz"]),
        ("a?c", ["abc", "a.c"], ["ac", "abbc"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "-x"]),
        ("[^a]x", ["bx", "^x"], ["ax"]),
        ("[!a]x", ["bx"], ["ax"]),
        ("[]]x", ["]x"], ["ax"]),
        (r"[\]a]", ["]", "a"], ["\\", "]a", "b"]),
        (r"[^\]a]x", ["bx", "\\x"], ["]x", "ax"]),
        (r"[a\-c]", ["a", "-", "c"], ["b"]),
        (r"[\\]", ["\\"], ["]"]),
        (r"[\[x]", ["[", "x"], ["\\"]),
        ("[a&&b]", ["a", "&", "b"], ["c"]),
        (r"\*\[a", ["*[a"], ["xa"]),
        ("a.b", ["a.b"], ["axb"]),
        ("**", ["", "anything"], []),
    ],
)
def test_names_match_as_hadoop_matches_them(pattern: str, matches: list[str], misses: list[str]) -> None:
    compiled = compile_name(pattern)
    assert [name for name in matches if not compiled.fullmatch(name)] == []
    assert [name for name in misses if compiled.fullmatch(name)] == []


@pytest.mark.parametrize(
    ("pattern", "alternatives"),
    [
        ("a", ["a"]),
        ("{a,b}c", ["ac", "bc"]),
        ("x{a/b,c}/y", ["xa/b/y", "xc/y"]),
        ("{a,{b,c}d}", ["a", "bd", "cd"]),
        ("{a,b}{1,2}", ["a1", "a2", "b1", "b2"]),
        ("{,a}x", ["x", "ax"]),
        (r"\{a,b}", [r"\{a,b}"]),
        (r"{a\,b,c}", [r"a\,b", "c"]),
    ],
)
def test_braces_stand_for_all_their_alternatives(pattern: str, alternatives: list[str]) -> None:
    assert expand_braces(pattern) == alternatives


@pytest.mark.parametrize(
    ("pattern", "message"), [("{a,b", "a '{' is not closed"), ("[ab", r"a '\[' is not closed"), ("a\\", "backslash")]
)
def test_a_malformed_pattern_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        [compile_name(part) for part in expand_braces(pattern)]


@given(st.text(alphabet="ab*?[]{}\\^!-.,&|~", max_size=12))
def test_any_text_is_a_pattern_or_a_clear_error(text: str) -> None:
    try:
        for alternative in expand_braces(text):
            compile_name(alternative)
    except ValueError as error:
        assert str(error).startswith("pattern ")  # noqa: PT017


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [("[+--]", "+,-"), ("[--/]", "-./"), ("[a-b--]", "-ab"), ("[!a--]", None), ("[^--/]", "+,ab"), ("[a-]", "-a")],
)
def test_hyphens_in_brackets_are_ranges_or_stand_for_themselves(pattern: str, matched: str | None) -> None:
    if matched is None:
        with pytest.raises(ValueError, match="bad character range"):
            compile_name(pattern)
        return
    found = [each for each in "+,-./ab" if compile_name(pattern).fullmatch(each)]
    assert found == list(matched)


def test_a_range_that_runs_backwards_is_told() -> None:
    with pytest.raises(ValueError, match=r"pattern '\[\?-\.\]': bad character range \?-\."):
        compile_name("[?-.]")


@given(st.text(max_size=20))
def test_an_escaped_name_matches_itself_only(name: str) -> None:
    escaped = "".join(f"\\{character}" for character in name)
    assert expand_braces(escaped) == [escaped]
    assert compile_name(escaped).fullmatch(name)
    assert unescape_name(escaped) == name


def test_a_pattern_is_told_from_a_path() -> None:
    assert [text for text in ("/a/b", "a*", "a?", "a[", "a{", "a\\") if is_glob(text)] == [
        "a*",
        "a?",
        "a[",
        "a{",
        "a\\",
    ]
