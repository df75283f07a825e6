"""Who publishes to a target, and which plan of a run comes before which."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_abs.exchange.errors import SupersededError


@dataclass(frozen=True, slots=True)
class Publisher:
    """One plan of a run. What a run publishes to a target is told by the target itself, where all of this is noted: a
    job has at most one sink for each, whatever the vertex is called by now.

    Args:
        identity: names the installation of Airflow, the DAG, the run and the job, the same in every try of every plan.
        generation: a later plan of the run has a higher one.
        run: DAG, run and job without the installation, ``dag/run/job``. Earlier versions of this package published as
            ``dag/run/job/vertex``, which counts as this run's, whatever vertex that was.
        vertices: for which they did so, as far as `plan` knows.
        former: what the run was named when its job had other names.
    """

    identity: str
    generation: int = 0
    run: str = ""
    vertices: tuple[str, ...] = ()
    former: tuple[str, ...] = ()

    @property
    def identities(self) -> tuple[str, ...]:
        """All that are known beforehand, its own first."""
        earlier = (f"{self.run}/{vertex}" for vertex in self.vertices)
        return tuple(dict.fromkeys((self.identity, *self.former, *earlier)))

    def owns(self, identity: str) -> bool:
        """Whether what was published as this is an earlier publication of the same run."""
        return identity in self.identities or (bool(self.run) and identity.startswith(f"{self.run}/"))

    def check_order(self, target: str, published: int) -> None:
        """See that this is no leftover of an earlier plan.

        Args:
            target: for the message, such as ``table lake.db.t``.
            published: the generation of what this run has published there.

        Raises:
            SupersededError: a later plan has published.
        """
        if published > self.generation:
            raise SupersededError(
                f"{target}: a later plan of this run ({self.identity}) has published to it, number {published}, and "
                f"this commit is of plan number {self.generation}; nothing was published. The run was cleared while "
                "this commit ran; to replace its rows again, clear the task plan and everything after it"
            )
