"""The macro behind `airflow_abs.LAST_COMPLETE_DAY`, in every template: ``macros.adaptive_spark.last_complete_day()``.

A macro of ours, because only code knows the time zone of each kind of timetable, and can end a task without retries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jinja2 import pass_context

from airflow_abs.airflow_abilities import AirflowFailException

if TYPE_CHECKING:
    from jinja2.runtime import Context


@pass_context
def last_complete_day(context: Context) -> str:
    """The last day, as ``2026-01-31``, that was over when the run's data interval ended. Days are those of the time
    zone in which the DAG is scheduled.

    Raises:
        AirflowFailException: the run has no data interval, which a retry would not give it; or the schedule counts
            hours, and would skip a day where clocks change.
    """
    end = context.get("data_interval_end")
    if end is None:
        raise AirflowFailException(
            "LAST_COMPLETE_DAY: this run has no logical date, so it has no data interval (an asset or a trigger "
            "without a date started it); trigger the DAG with a logical date in Airflow's UI, or by "
            "`airflow backfill create --dag-id ID --from-date 2026-01-31 --to-date 2026-01-31`, or declare the day as "
            "a parameter, such as '{{ params.day }}'"
        )
    import pendulum

    zone = schedule_timezone(context["dag"])
    moment = pendulum.instance(end).in_timezone(zone)
    span = _of_timetable(context["dag"].timetable, ("delta", "_delta"))
    is_manual = getattr(context.get("dag_run"), "run_type", None) == "manual"
    if span is not None and not is_manual and _lasts_a_day(span) and _changes_its_day(moment):
        raise AirflowFailException(
            f"LAST_COMPLETE_DAY: the schedule counts hours ({span}), and its runs end at {moment:%H:%M} of {zone}, "
            "on one side of midnight in summer and on the other in winter: a day would be skipped where the clocks "
            "change. Write a cron expression, which keeps to the clock, such as schedule='0 1 * * *'"
        )
    return str(moment.date().subtract(days=1))


def schedule_timezone(dag: Any) -> Any:
    """The time zone of a DAG's timetable; of the DAG, where a timetable has none (a time delta, for example).

    Args:
        dag: as its file declares it, or as Airflow's triggerer reads it from the database.
    """
    return _of_timetable(dag.timetable, ("timezone", "_timezone")) or dag.timezone


def _lasts_a_day(span: Any) -> bool:
    """A `timedelta` or a `relativedelta`."""
    return any(getattr(span, name, 0) for name in ("days", "months", "years"))


def _changes_its_day(moment: Any) -> bool:
    """Whether the same time of UTC is on another day of this zone in another season."""
    utc = moment.in_timezone("UTC")
    return len({(utc + moment.add(months=month).utcoffset()).date() for month in range(12)}) > 1


def _of_timetable(timetable: Any, names: Sequence[str]) -> Any:
    # the scheduler's own classes keep the same under names with an underscore
    for name in names:
        if found := getattr(timetable, name, None):
            return found
    inner = [
        getattr(timetable, "timetable", None),
        *(getattr(timetable, "timetables", None) or getattr(timetable, "_timetables", None) or ()),
    ]
    return next((found for each in inner if each is not None and (found := _of_timetable(each, names))), None)
