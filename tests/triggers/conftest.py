"""What triggers push, and what they ask: as in `tests/execution`."""

from tests.execution.conftest import pushed, supervisor

__all__ = ["pushed", "supervisor"]
