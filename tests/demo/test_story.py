from __future__ import annotations

from pathlib import Path

import pytest

from airflow_abs.demo.example_dags import example_dags_folder
from airflow_abs.demo.story import StoryOptions, write_dags


def test_the_example_runs_as_it_is_and_its_copies_differ_in_a_few_words(tmp_path: Path) -> None:
    folder = write_dags(example_dags_folder(), tmp_path / "dags", StoryOptions(0.1, tmp_path))
    right = (folder / "daily_revenue.py").read_text()
    assert right == (example_dags_folder() / "daily_revenue.py").read_text()

    def changed(name: str) -> list[str]:
        pairs = zip(right.splitlines(), (folder / f"{name}.py").read_text().splitlines(), strict=True)
        return [other.strip() for one, other in pairs if one != other]

    job = 'with AdaptiveSparkJob("revenue", conn_id="spark_connect_default", '
    imported = "from airflow_abs import AdaptiveSparkJob, JobOptions, AdaptiveSparkOperator, Files"
    assert changed("small_limits_revenue") == [
        imported,
        '"small_limits_revenue",',
        job + "target_bytes=153600, options=JobOptions(local_bytes=2000000)):",
        'sink=Files(f"{MART}/small_limits_revenue/ds={DAY}", mode="overwrite"),',
    ]
    assert changed("mistaken_revenue") == [
        imported,
        'return enriched.groupBy("segment").agg(',
        '"mistaken_revenue",',
        job + 'options=JobOptions(unsplittable="refuse")):',
        'sink=Files(f"{MART}/mistaken_revenue/ds={DAY}", mode="overwrite"),',
    ]


def test_a_folder_without_the_example_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"demo: .*daily_revenue.py is not the example DAG, .*--dags-folder"):
        write_dags(tmp_path, tmp_path / "dags", StoryOptions(0.1, tmp_path))
