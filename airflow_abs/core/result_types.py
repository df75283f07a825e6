"""How data travel along an edge, and what that means for scheduling and failure."""

from __future__ import annotations

from enum import StrEnum


class ResultType(StrEnum):
    """Type of an intermediate result."""

    PIPELINED = "PIPELINED"
    PIPELINED_BOUNDED = "PIPELINED_BOUNDED"
    PIPELINED_APPROXIMATE = "PIPELINED_APPROXIMATE"
    BLOCKING = "BLOCKING"
    BLOCKING_PERSISTENT = "BLOCKING_PERSISTENT"
    HYBRID_FULL = "HYBRID_FULL"
    HYBRID_SELECTIVE = "HYBRID_SELECTIVE"

    @property
    def must_be_pipelined(self) -> bool:
        """Producer and consumer have to run at the same time: they are one region."""
        return self in (ResultType.PIPELINED, ResultType.PIPELINED_BOUNDED)

    @property
    def is_blocking(self) -> bool:
        """Consumers can only start when the producer has finished."""
        return self in (ResultType.BLOCKING, ResultType.BLOCKING_PERSISTENT)

    @property
    def is_reconsumable(self) -> bool:
        """A finished result can be read again after its consumer failed."""
        return self.is_blocking or self is ResultType.HYBRID_FULL

    @property
    def survives_consumer_failure(self) -> bool:
        """The producer need not run again when a consumer fails; approximate results may lose rows instead."""
        return self.is_reconsumable or self is ResultType.PIPELINED_APPROXIMATE
