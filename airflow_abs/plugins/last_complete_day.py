"""The macro behind `airflow_abs.LAST_COMPLETE_DAY`, in every template: ``macros.adaptive_spark.last_complete_day()``.

A macro of ours, because only code knows the time zone of each kind of timetable, and can end a task without retries.
"""

from __future__ import annotations

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
        AirflowFailException: the run has no data interval, which a retry would not give it.
    """
    end = context.get("data_interval_end")
    if end is None:
        raise AirflowFailException(
            "LAST_COMPLETE_DAY: this run has no logical date, so no data interval whose end would tell the day (an "
            "asset or a trigger without a date started it); trigger the DAG with a logical date, such as `airflow "
            "dags trigger --logical-date 2026-01-31T00:00:00Z`, or declare the day as a parameter, such as "
            "'{{ params.day }}'"
        )
    import pendulum

    moment = pendulum.instance(end).in_timezone(schedule_timezone(context["dag"]))
    return str(moment.date().subtract(days=1))


def schedule_timezone(dag: Any) -> Any:
    """The time zone of a DAG's timetable; of the DAG, where a timetable has none (a time delta, for example).

    Args:
        dag: as its file declares it, or as Airflow's triggerer reads it from the database.
    """
    return _of_timetable(dag.timetable) or dag.timezone


def _of_timetable(timetable: Any) -> Any:
    # the scheduler's own classes keep the same under names with an underscore
    for name in ("timezone", "_timezone"):
        if zone := getattr(timetable, name, None):
            return zone
    inner = [
        getattr(timetable, "timetable", None),
        *(getattr(timetable, "timetables", None) or getattr(timetable, "_timetables", None) or ()),
    ]
    return next((zone for each in inner if each is not None and (zone := _of_timetable(each))), None)
