"""`@task.adaptive_spark`: the TaskFlow face of `AdaptiveSparkOperator`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NoReturn, overload

from airflow_abs.core.errors import JobGraphError
from airflow_abs.exchange.sources.files import SOURCE
from airflow_abs.operators.adaptive_spark import AdaptiveSparkOperator, Edge
from airflow_abs.spark.transforms.functions import name_of

_INPUT = (Edge, AdaptiveSparkOperator)


class VertexFactory:
    """A decorated transform. Calling it inside an `AdaptiveSparkJob` declares a vertex.

    Vertices and edges among the arguments become its inputs, all others its `transform_kwargs`. The vertex is named
    after the function. `override` returns a factory with other options.
    """

    def __init__(self, transform: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, transform)
        self.function = transform
        self._options = options

    def __call__(self, *args: Any, **kwargs: Any) -> AdaptiveSparkOperator:
        names = list(inspect.signature(self.function).parameters)
        if self._options.get("source") is not None:
            has_inputs = any(isinstance(value, _INPUT) for value in (*args, *kwargs.values()))
            # Without inputs the first parameter is the source's, whatever it is called.
            names = [name for name in names if name != SOURCE] if has_inputs else names[1:]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        inputs = {name: value for name, value in given.items() if isinstance(value, _INPUT)}
        arguments = {name: value for name, value in given.items() if name not in inputs}
        return AdaptiveSparkOperator(
            **{
                "task_id": name_of(self.function),
                **self._options,
                "transform": self.function,
                "inputs": inputs,
                "transform_kwargs": {**self._options.get("transform_kwargs", {}), **arguments},
            }
        )

    def override(self, **options: Any) -> VertexFactory:
        """The same transform with these options replaced, for example ``override(task_id="again", retries=0)``."""
        return VertexFactory(self.function, {**self._options, **options})

    def __getattr__(self, name: str) -> NoReturn:
        """Edges and columns are a vertex's, which it is once it is called."""
        message = f"{type(self).__name__!r} object has no attribute {name!r}"
        if hasattr(AdaptiveSparkOperator, name):
            own = name_of(self.function)
            message = f"{own} is the function that declares a vertex; write {own}().{name}(...)"
        raise AttributeError(message, name=name, obj=self)

    def expand(self, **_: Any) -> NoReturn:
        """Airflow's dynamic mapping, which a vertex has already.

        Raises:
            JobGraphError: always.
        """
        raise JobGraphError(
            f"vertex {name_of(self.function)!r}: .expand() and .partial() are not for vertices, whose fan-out is "
            "decided on the day; call it with its inputs, and declare a vertex for each if you need several"
        )

    partial = expand
    expand_kwargs = expand


@overload
def adaptive_spark_task(python_callable: Callable[..., Any]) -> VertexFactory: ...
@overload
def adaptive_spark_task(
    python_callable: None = None, **options: Any
) -> Callable[[Callable[..., Any]], VertexFactory]: ...
def adaptive_spark_task(python_callable: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a vertex of a transform; see `VertexFactory`.

    Args:
        python_callable: the transform.
        options: arguments of `AdaptiveSparkOperator` (source, sink, options, ...) and of Airflow's tasks.
    """
    if python_callable is None:
        return functools.partial(adaptive_spark_task, **options)
    return VertexFactory(python_callable, options)
