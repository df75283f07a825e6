"""What Airflow's provider discovery reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_abs import __version__
from airflow_abs.core.settings import SECTION, section_settings

_INTEGRATION = "Adaptive batch scheduler"

_OPERATORS = (
    "adaptive_spark",
    "commit",
    "decide",
    "plan",
    "release",
    "run_server",
    "run_subtask",
    "streams.adaptive_spark_stream",
)
_TRIGGERS = ("decide", "start_subtask", "streams.stream", "subtask")


def get_provider_info() -> dict[str, Any]:
    """Modules, decorators, the link to the run's page, and the configuration section with its defaults.

    The connection type `spark_connect` is the Spark provider's; the plugin has an entry point of its own.
    """
    return {
        "package-name": "airflow-abs",
        "name": _INTEGRATION,
        "description": "Spark steps whose number of tasks is decided at run time from the bytes written upstream.",
        "versions": [__version__],
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://spark.apache.org/docs/latest/spark-connect-overview.html",
                "tags": ["apache"],
            }
        ],
        "operators": _of_modules("operators", _OPERATORS),
        "hooks": _of_modules("hooks", ("adaptive_spark",)),
        "triggers": _of_modules("triggers", _TRIGGERS),
        "task-decorators": [
            {"name": "adaptive_spark", "class-name": "airflow_abs.decorators.adaptive_spark.adaptive_spark_task"},
            {
                "name": "adaptive_spark_stream",
                "class-name": "airflow_abs.decorators.adaptive_spark_stream.adaptive_spark_stream_task",
            },
        ],
        "extra-links": ["airflow_abs.execution.links.AdaptivePlanLink"],
        "config": {
            SECTION: {
                "description": "Adaptive Spark jobs; options are the defaults of jobs.",
                "options": {
                    name: {
                        "description": setting.sentence,
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": None,
                        "default": setting.default,
                    }
                    for name, setting in section_settings().items()
                },
            }
        },
    }


def _of_modules(folder: str, modules: Iterable[str]) -> list[dict[str, Any]]:
    names = [f"airflow_abs.{folder}.{module}" for module in modules]
    return [{"integration-name": _INTEGRATION, "python-modules": names}]
