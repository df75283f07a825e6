"""`@task.adaptive_spark`: the TaskFlow face of `AdaptiveSparkOperator`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, overload

from airflow_abs.operators.adaptive_spark import AdaptiveSparkOperator, Edge

VertexFactory = Callable[..., AdaptiveSparkOperator]


@overload
def adaptive_spark_task(python_callable: Callable[..., Any]) -> VertexFactory: ...
@overload
def adaptive_spark_task(
    python_callable: None = None, **options: Any
) -> Callable[[Callable[..., Any]], VertexFactory]: ...
def adaptive_spark_task(python_callable: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a vertex of a transform.

    Calling the decorated function inside an `AdaptiveSparkJob` declares the vertex: arguments that are edges of other
    vertices are its inputs, all others its `transform_kwargs`. The vertex is named after the function.

    Args:
        python_callable: the transform.
        options: arguments of `AdaptiveSparkOperator` (source, sink, parallelism, ...) and of Airflow's tasks.
    """
    if python_callable is None:
        return functools.partial(adaptive_spark_task, **options)

    @functools.wraps(python_callable)
    def declare(*args: Any, **kwargs: Any) -> AdaptiveSparkOperator:
        names = list(inspect.signature(python_callable).parameters)
        if options.get("source") is not None and not any(
            isinstance(value, Edge) for value in (*args, *kwargs.values())
        ):
            names = names[1:]  # the first parameter is the source's
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        inputs = {name: value for name, value in given.items() if isinstance(value, (Edge, AdaptiveSparkOperator))}
        arguments = {name: value for name, value in given.items() if name not in inputs}
        return AdaptiveSparkOperator(
            **{
                "task_id": python_callable.__name__,
                **options,
                "transform": python_callable,
                "inputs": inputs,
                "transform_kwargs": {**options.get("transform_kwargs", {}), **arguments},
            }
        )

    return declare
