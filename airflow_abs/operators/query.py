"""The query of a vertex: read from its file, and checked while the DAG file is parsed."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.sql_names import REPETITION

_JINJA = re.compile(r"\{%-?\s*raw\b.*?\bendraw\s*-?%\}|\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_BRACES = re.compile(r"\{[^{}]*\}?|\}")
_NAMED = re.compile(r"\{(\w+)(?:[.\[].*)?\}", re.DOTALL)
"""An input, or as Spark also takes it one of its columns: ``{orders}``, ``{orders.amount}``, ``{orders[amount]}``."""


def is_file(sql: str) -> bool:
    """Whether a query is named by its file, as Airflow's own operators name theirs."""
    return sql.endswith(".sql") and not re.search(r"\s", sql)


def read_query(vertex: str, file: str, dag: Any) -> str:
    """The text of a file, found as Airflow finds templates: beside the DAG file and in `template_searchpath`.

    Raises:
        JobGraphError: it is in none of these folders.
    """
    from jinja2 import TemplateNotFound

    environment = dag.get_template_env()
    try:
        text: str = environment.loader.get_source(environment, file)[0]
    except TemplateNotFound as error:
        folders = ", ".join(environment.loader.searchpath)
        raise JobGraphError(
            f"vertex {vertex!r}: its sql is the file {file!r}, which is not in {folders}; put it beside the DAG file, "
            "or add its folder to the DAG's template_searchpath"
        ) from error
    return text


def check_query(vertex: str, sql: str, inputs: Sequence[str], arguments: Collection[str]) -> None:
    """The query reads its inputs and uses its arguments, no more and no less.

    Args:
        vertex: for messages.
        sql: with its templates.
        inputs: their names, `source` among them.
        arguments: names of `transform_kwargs`.

    Raises:
        JobGraphError: names what is missing, unknown or no name at all.
    """
    missing = [name for name in inputs if f"{{{name}}}" not in sql]
    if missing:
        raise JobGraphError(
            f"vertex {vertex!r}: its sql does not read {', '.join(missing)}; name each input in braces, as "
            f"in FROM {{{missing[0]}}}, or drop the input"
        )
    own = _JINJA.sub("", sql)
    braces = [each for each in _BRACES.findall(own) if not REPETITION.fullmatch(each)]
    if unknown := sorted({found[1] for each in braces if (found := _NAMED.fullmatch(each))} - set(inputs)):
        known = f"its inputs are {', '.join(inputs)}" if inputs else "it has neither inputs= nor source="
        raise JobGraphError(f"vertex {vertex!r}: its sql reads {', '.join(unknown)}, which is not an input; {known}")
    if texts := [each for each in braces if not _NAMED.fullmatch(each)]:
        raise JobGraphError(
            f"vertex {vertex!r}: its sql contains {texts[0]}, and a brace begins the name of an input, such as "
            f"{{{inputs[0] if inputs else 'orders'}}}. Write braces that are text twice, inside "
            '{% raw %} and {% endraw %}, such as {% raw %}{{"a": 1}}{% endraw %}'
        )
    if unused := [name for name in arguments if f":{name}" not in sql]:
        raise JobGraphError(
            f"vertex {vertex!r}: its sql does not use {', '.join(unused)} of its transform_kwargs; name each with a "
            f"colon, as in WHERE day = :{unused[0]}, or drop it"
        )
