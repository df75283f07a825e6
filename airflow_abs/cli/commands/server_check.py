"""`airflow-abs server check`: whether steps that run in parts give plain Spark's rows on the server of a connection."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from airflow_abs.cli.output.tables import Column, Table, show

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint
    from airflow_abs.testing.corpus_bench.runner import Verdict

WRONG = 1
_SUBTASKS = 3


def check_server(conn_id: str, folder: Path | None) -> int:
    """Print what was tried and what came of it; 0 if nothing of it is wrong, else 1.

    `folder`: the server sees it, too; by default the one of this host for temporary files.

    Raises:
        SparkOperationError: the server cannot be reached, or is too old for this client.
        CorpusError: plain Spark itself does not run there what is to be compared.
    """
    from airflow_abs.hooks.adaptive_spark import stored_endpoint
    from airflow_abs.spark.connect.endpoint import probe_blocking
    from airflow_abs.spark.connect.protocol import client_version
    from airflow_abs.testing.corpus_bench.table import describe_exceptions

    endpoint = replace(stored_endpoint(conn_id), allow_untried_spark=True)
    release = probe_blocking(endpoint)
    print(f"Spark {release} at {endpoint.address}, client {client_version()}; this takes some minutes", flush=True)
    began = time.monotonic()
    with TemporaryDirectory(dir=folder, prefix="airflow-abs-check-") as name:
        verdicts = _try_transforms(endpoint, release, Path(name))
        examples = list(_try_examples(endpoint, Path(name)))
    headings = (Column("what"), *(Column(each, is_number=True) for each in ("tried", "right", "refused", "wrong")))
    show([Table(headings, [*_count_transforms(verdicts), *examples]), describe_exceptions(verdicts)])
    wrong = sum(int(row[-1]) for row in (*_count_transforms(verdicts), *examples))
    print(f"Spark {release}: {wrong or 'nothing'} wrong, after {time.monotonic() - began:.0f} s")
    return WRONG if wrong else 0


def _try_transforms(endpoint: ConnectEndpoint, release: str, folder: Path) -> list[Verdict]:
    """One for each operator of Spark and each reason to refuse."""
    from airflow_abs.testing.corpus import read_corpus
    from airflow_abs.testing.corpus_bench.runner import Bench, run_corpus
    from airflow_abs.testing.corpus_bench.sample import SAMPLE

    names = set(SAMPLE.values())
    entries = [entry for entry in read_corpus(release=release) if entry.name in names]
    return run_corpus(Bench.prepare(endpoint, folder), entries, (_SUBTASKS,), with_refused=False)


def _count_transforms(verdicts: list[Verdict]) -> Iterator[list[str]]:
    from airflow_abs.testing.corpus_bench.runner import Outcome

    families = dict.fromkeys(verdict.entry.family for verdict in verdicts)
    for family in families:
        found = Counter(verdict.outcome for verdict in verdicts if verdict.entry.family == family)
        refused = found[Outcome.REFUSED] + found[Outcome.NEEDLESS]
        wrong = found[Outcome.WRONG] + found[Outcome.FAILED]
        yield [f"steps: {family}", *map(str, (found.total(), found[Outcome.RIGHT], refused, wrong))]


def _try_examples(endpoint: ConnectEndpoint, folder: Path) -> Iterator[list[str]]:
    """The jobs of the example DAGs, against DuckDB where it is installed."""
    from airflow_abs.testing.examples import EXAMPLES, compare_example, generate_data

    if find_spec("duckdb") is None:
        print("skipping the jobs of the example DAGs, which need pip install 'airflow-abs[demo]'", flush=True)
        return
    generate_data(folder / "data")
    for name in EXAMPLES:
        try:
            difference = compare_example(name, folder / "data", endpoint, _SUBTASKS)
        except Exception as error:  # whatever it is, the job gave no rows there
            difference = f"{type(error).__name__}: {error}"
        if difference is not None:
            print(f"{name}: {difference}", flush=True)
        is_right = difference is None
        yield [f"job: {name}", "1", str(int(is_right)), "0", str(int(not is_right))]
