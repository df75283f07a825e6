"""What a Spark server can do: one list of abilities that not every release has, and which of them a server lacks.

`Abilities` is made once per server: `open_session` makes it from the answer to its probe, `Connection.abilities` when
something asks first. Code that needs an ability asks `abilities.has(...)` and otherwise does what `fallback` says.
`plan` refuses a server that lacks an ability without a fallback: plans travel as protobuf, and a server skips fields
that are newer than itself without a word. `make test-spark-versions` tries servers of other releases.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_abs.spark.errors import VersionMismatchError


@dataclass(frozen=True, slots=True)
class Ability:
    """Something that not every release of Spark can do.

    Args:
        since: the first release line that can.
        lack: what an older server cannot do, as a main clause for messages.
        fallback: what this package does there instead; "" where it does nothing, so `plan` refuses the server.
    """

    since: tuple[int, int]
    lack: str
    fallback: str = ""


# `operations.read_states`
OPERATION_STATUS = Ability((4, 2), "it has no GetStatus, so a listener does not learn that its session was ended")
# `classification.py`
PYTHON_ERROR_CLASSES = Ability((4, 2), "errors of its Python functions have no error class")
# pyspark's client, when it sends local rows
PLAIN_NUMBERS = Ability((4, 2), "it gives sizes in settings a unit, so this client cannot send it local rows")
# `spark/proof/`
PROVED_PLANS = Ability((4, 2), "the proof does not know how it writes explained plans")
# pyspark's client, in plans
IN_SUBQUERY_VALUES = Ability(
    (4, 1), "it skips what came to plans with 4.1, such as the values of an IN with a subquery"
)

ABILITIES = (OPERATION_STATUS, PYTHON_ERROR_CLASSES, PLAIN_NUMBERS, PROVED_PLANS, IN_SUBQUERY_VALUES)
"""All of them. docs/reference/compatibility.md says how each was found."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the server at hand can do. `release` is its own word ("4.2.0"); `lacking` is part of `ABILITIES`."""

    release: str
    lacking: frozenset[Ability] = frozenset()

    @classmethod
    def of_release(cls, version: str) -> Abilities:
        """Those of a server that says that it runs this version of Spark ("4.2.0", "4.2.0-amzn-1")."""
        return cls(version, frozenset(each for each in ABILITIES if _release(version)[:2] < each.since))

    def has(self, ability: Ability) -> bool:
        return ability not in self.lacking

    def require(self, ability: Ability) -> None:
        """For what has no fallback.

        Raises:
            VersionMismatchError: the server lacks it.
        """
        if not self.has(ability):
            first = ".".join(map(str, ability.since))
            raise VersionMismatchError(
                f"Spark Connect server runs Spark {self.release}: {ability.lack}; run the server on Spark {first}"
            )

    def check(self, client: str) -> None:
        """The server's release must be the client's.

        Raises:
            VersionMismatchError: major, minor or patch differ. The message lists what the server is known to lack.
        """
        if _release(self.release) == _release(client):
            return
        missing = "; ".join(each.lack for each in ABILITIES if not self.has(each) and not each.fallback)
        raise VersionMismatchError(
            f"Spark Connect server runs Spark {self.release}, this Airflow has pyspark {client}"
            f"{f': {missing}' if missing else ''}; expected the same version; run the server on Spark "
            f"{'.'.join(map(str, _release(client)))}"
        )


def _release(version: str) -> tuple[int, ...]:
    """(4, 2, 0) of "4.2.0-amzn-1"; digits only, so a text that is no version is older than any ability."""
    parts = version.split("-", 1)[0].split("+", 1)[0].split(".")[:3]
    return tuple(int(part) if part.isdecimal() else 0 for part in parts)
