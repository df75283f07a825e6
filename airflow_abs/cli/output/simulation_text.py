"""A simulation for people: a row per region, sums per run and per day, and what all of it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_abs.cli.output.tables import Block, Column, Table
from airflow_abs.core.decide.parallelism import divide_up
from airflow_abs.core.simulate.cost import Costs
from airflow_abs.core.simulate.growth import Scenario
from airflow_abs.core.simulate.recorded_job import RecordedJob
from airflow_abs.core.simulate.simulated_job import SimulatedJob, SimulatedRegion
from airflow_abs.core.wording import format_bytes, format_count

DAY_SECONDS = 86_400
TRIGGERS_EACH = 1_000  # [triggerer] capacity

_COLUMNS = (
    Column("vertex"),
    Column("bytes in", is_number=True),
    Column("subtasks", is_number=True),
    Column("waves", is_number=True),
    Column("largest", is_number=True),
    Column("hop s", is_number=True),
    Column("starts s", is_number=True),
    Column("run s", is_number=True),
    Column("Airflow CPU s", is_number=True),
    Column("exchange", is_number=True),
    Column("XCom each", is_number=True),
    Column("manifest each", is_number=True),
    Column("why"),
)


@dataclass(frozen=True, slots=True)
class Simulation:
    """One simulated run with what it was made from; the first of `fitted_to` was scaled."""

    fitted_to: Sequence[RecordedJob]
    costs: Costs
    scenario: Scenario
    run: SimulatedJob
    runs_per_day: int

    def assumptions(self) -> list[str]:
        """What was fitted, and what is taken for granted; a line each."""
        fitted, scenario, airflow = self.fitted_to, self.scenario, self.costs.airflow
        size = scenario.file_bytes
        files = f"in files of at most {format_bytes(size)}" if size else "by more files, not larger ones"
        staying = f"; those of {', '.join(sorted(scenario.fixed))} stay" if scenario.fixed else ""
        subtask = airflow.triggered_cpu if scenario.from_trigger else airflow.task_cpu
        lines = [f"fitted to {format_count(len(fitted), 'run')}: {', '.join(job.name for job in fitted)}"]
        if len(fitted) == 1:
            lines.append(
                "one run cannot tell seconds per subtask from seconds per byte: the fastest subtask stands for the "
                "former"
            )
        for name, cost in self.costs.regions.items():
            throughput = f"{format_bytes(1 / cost.per_byte)} a second" if cost.per_byte else "any number of bytes"
            lines.append(f"{name}: {cost.fixed:.2f} s for a subtask, then {throughput} on a slot")
        lines += [
            "each slot is as fast as in these runs, however many; storage keeps up; the slots run nothing else",
            f"sources grow {files}{staying}; what a vertex reads and writes grows as its sources do",
            "the distribution of keys stays the same; hot ones grow like the others",
            f"Airflow starts a subtask every {self.costs.interval:.2f} s, as in these runs",
            f"Airflow needs {self.costs.hop:.1f} s from region to region, as in these runs",
            "reaching plan, and running commit and release, take half of that each",
            f"Airflow's CPU seconds: {airflow.task_cpu} for a task on a worker, {subtask} for a subtask",
            "nothing fails, and no pool is smaller than the slots",
        ]
        return lines


def describe(simulation: Simulation) -> list[Block]:
    """Table and sums, then the assumptions."""
    run, first = simulation.run, simulation.fitted_to[0]
    options = run.regions[0].decision.options
    was, now = format_bytes(sum(region.source_bytes for region in first.regions)), format_bytes(run.source_bytes)
    settings = f"target {format_bytes(options.target_bytes)}, {options.bounds}, strategy {options.strategy}"
    return [
        f"{first.name}: files of {was}, here {now} (factor {simulation.scenario.factor:,.5g})",
        f"{format_count(run.slots, 'slot')}, {settings}",
        "",
        Table(_COLUMNS, [_row(region) for region in run.regions]),
        "",
        *_per_run(run),
        *_per_day(run, simulation.runs_per_day),
        "",
        "rests on:",
        *(f"  {line}" for line in simulation.assumptions()),
    ]


def _row(region: SimulatedRegion) -> list[str]:
    return [
        region.name,
        format_bytes(region.bytes_in),
        f"{region.decision.parallelism:,}",
        f"{region.waves:,}",
        format_bytes(region.largest),
        f"{region.span.start - region.span.ready:,.1f}",
        f"{region.starting:,.1f}",
        f"{region.span.seconds:,.1f}",
        f"{region.airflow_cpu:,.0f}",
        format_bytes(region.exchange_bytes),
        format_bytes(region.xcom_bytes),
        format_bytes(region.manifest_bytes),
        region.decision.reason,
    ]


def _per_run(run: SimulatedJob) -> list[str]:
    triggerers = format_count(divide_up(run.most_subtasks_at_once, TRIGGERS_EACH), "triggerer")
    tasks = f"{format_count(run.subtasks, 'subtask')}, {format_count(run.task_instances, 'task instance')}"
    kept = f"{format_bytes(run.manifest_bytes)} of manifests until `gc`, {format_bytes(run.xcom_bytes)} of XCom"
    return [
        f"a run: {run.wall:,.0f} s, in {run.airflow_wall:,.0f} s of them no subtask runs; {tasks}",
        f"  {run.slot_seconds / 3600:,.1f} slot hours on Spark, {run.airflow_cpu / 3600:,.2f} CPU hours of Airflow",
        f"  {format_bytes(run.exchange_bytes)} in the exchange until the release; {kept}",
        f"  {format_count(run.most_subtasks_at_once, 'subtask')} at once: {triggerers} of {TRIGGERS_EACH:,} triggers",
    ]


def _per_day(run: SimulatedJob, runs: int) -> list[str]:
    times = "a day of one run" if runs == 1 else f"a day of {runs} runs"
    read, written = format_bytes(run.source_bytes * runs), format_bytes(run.exchange_bytes * runs)
    xcom = format_bytes(run.xcom_bytes * runs)
    cpu = f"{run.airflow_cpu * runs / 3600:,.1f} CPU hours of Airflow"
    lines = [
        f"{times}: {read} of files, {written} through the exchange, {format_count(run.subtasks * runs, 'subtask')}",
        f"  {run.slot_seconds * runs / 3600:,.1f} slot hours of {24 * run.slots:,}, {cpu}, {xcom} of XCom",
    ]
    if run.wall > DAY_SECONDS / runs:
        lines.append(f"  too slow: a run takes {run.wall:,.0f} s, and one starts every {DAY_SECONDS / runs:,.0f} s")
    return lines
