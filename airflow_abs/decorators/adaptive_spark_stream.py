"""`@task.adaptive_spark_stream`: the TaskFlow face of `AdaptiveSparkStream`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from airflow_abs.operators.streams.adaptive_spark_stream import AdaptiveSparkStream


class StreamFactory:
    """A decorated transform of a stream, its first parameter. Calling it with the others makes the task, which is named
    after the function."""

    def __init__(self, transform: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, transform)
        self.function = transform
        self._options = options

    def __call__(self, *args: Any, **kwargs: Any) -> AdaptiveSparkStream:
        names = list(inspect.signature(self.function).parameters)[1:]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        options = {"task_id": self.function.__name__, **self._options}
        return AdaptiveSparkStream(transform=self.function, transform_kwargs=given, **options)

    def override(self, **options: Any) -> StreamFactory:
        """The same transform with other options."""
        return StreamFactory(self.function, {**self._options, **options})


def adaptive_spark_stream_task(python_callable: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a stream of a transform; see `StreamFactory`.

    Args:
        python_callable: the transform.
        options: arguments of `AdaptiveSparkStream` (source, sink, checkpoint, ...) and of Airflow's tasks.
    """
    if python_callable is None:
        return functools.partial(adaptive_spark_stream_task, **options)
    return StreamFactory(python_callable, options)
