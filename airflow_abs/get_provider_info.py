"""What Airflow's provider discovery reads."""

from __future__ import annotations

from typing import Any

from airflow_abs import __version__
from airflow_abs.core.settings import SECTION, section_settings


def get_provider_info() -> dict[str, Any]:
    """The decorator, the link to the run's page, and the configuration section with its defaults."""
    return {
        "package-name": "airflow-abs",
        "name": "Adaptive batch scheduler",
        "description": "Fan-out of Spark steps decided at run time from the bytes really produced.",
        "versions": [__version__],
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
