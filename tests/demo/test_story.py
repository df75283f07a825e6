from __future__ import annotations

from pathlib import Path

import pytest

from airflow_abs.demo.example_dags import example_dags_folder
from airflow_abs.demo.story import write_dags


def test_the_mistake_is_one_word_in_a_copy_of_the_example(tmp_path: Path) -> None:
    folder = write_dags(example_dags_folder(), tmp_path / "dags")
    right, mistaken = ((folder / f"{name}.py").read_text() for name in ("daily_revenue", "mistaken_revenue"))
    assert right == (example_dags_folder() / "daily_revenue.py").read_text()
    pairs = zip(right.splitlines(), mistaken.splitlines(), strict=True)
    changed = [(one.strip(), other.strip()) for one, other in pairs if one != other]
    assert changed == [
        ('return enriched.groupBy("region").agg(', 'return enriched.groupBy("segment").agg('),
        ('"daily_revenue",', '"mistaken_revenue",'),
    ]


def test_a_folder_without_the_example_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"demo: .*daily_revenue.py is not the example DAG, .*--dags-folder"):
        write_dags(tmp_path, tmp_path / "dags")
