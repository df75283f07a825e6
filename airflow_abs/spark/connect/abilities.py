"""What a Spark server can do: one list of abilities that not every release has, and which of them a server lacks.

`Abilities` is made once per server: `open_session` makes it from the answer to its probe, `Connection.abilities` when
something asks first. Code that needs an ability asks `abilities.has(...)` and otherwise does what `fallback` says.
`plan` refuses a server of a release line that was not tested: plans travel as protobuf, and a server skips fields
that are newer than itself silently. `make test-spark-versions` tries servers of other releases.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from airflow_abs.spark.errors import VersionMismatchError


@dataclass(frozen=True, slots=True)
class Ability:
    """Something that not every release of Spark can do.

    Args:
        since: the first release line that can.
        lack: what an older server cannot do, as a main clause for messages.
        fallback: what this package does there instead.
    """

    since: tuple[int, int]
    lack: str
    fallback: str


# `operations.is_alive`
OPERATION_STATUS = Ability(
    (4, 2), "it has no GetStatus", "its reply to the release of an unknown response tells whether an operation is alive"
)
# `AttemptExecution.release`
RELEASED_STAY_KNOWN = Ability(
    (4, 1), "it runs a released operation again", "operations of subtasks are released with their session only"
)
# `classification.py`
PYTHON_ERROR_CLASSES = Ability(
    (4, 2), "errors of its Python functions have no error class", "the class of Java's exception tells them apart"
)
# `session.open_session`: pyspark's client reads them when it sends local rows
PLAIN_NUMBERS = Ability((4, 2), "it gives sizes in settings a unit", "the unit is dropped")
LOCAL_ROW_SETTINGS = Ability(
    (4, 1), "it does not know all settings that pyspark's client asks for", "they are the client's own"
)
# `newer_fields.py`
NEWER_FIELDS = Ability((4, 2), "it skips what is newer in plans", "a step whose plan has such a field is refused")
# `spark/proof/`
PROVED_PLANS = Ability((4, 2), "its operators were not all looked at", "steps with others than the corpus' are refused")

ABILITIES = (
    OPERATION_STATUS,
    RELEASED_STAY_KNOWN,
    PYTHON_ERROR_CLASSES,
    PLAIN_NUMBERS,
    LOCAL_ROW_SETTINGS,
    NEWER_FIELDS,
    PROVED_PLANS,
)
"""All of them. docs/reference/compatibility.md says how each was found."""

TRIED: Mapping[tuple[int, ...], tuple[int, ...]] = {(4, 0): (5,), (4, 1): (4,), (4, 2): (0, 1), (4, 3): (0,)}
"""The release lines that were tried, with their patches; docs/reference/compatibility.md says what ran on each."""
NEWEST_CLIENT = (4, 2)
"""The client's release line then: one that is newer may send what an older server skips, see `newer_fields.py`."""
OLDEST_CLIENT = (4, 1)
"""The oldest release line of the client that was tried."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the server at hand can do. `release` is its own word ("4.2.0"); `lacking` is part of `ABILITIES`."""

    release: str
    lacking: frozenset[Ability] = frozenset()

    @classmethod
    def of_release(cls, version: str) -> Abilities:
        """Those of a server that says that it runs this version of Spark ("4.2.0", "4.2.0-amzn-1")."""
        return cls(version, frozenset(each for each in ABILITIES if release_number(version)[:2] < each.since))

    def has(self, ability: Ability) -> bool:
        return ability not in self.lacking

    def check(self, client: str, *, allow_untried: bool = False) -> None:
        """Whether a client of this release may use the server; warns once of one that was not tested.

        Tried servers may be used, other patches of a tried release line too, and with `allow_untried` newer lines.

        Raises:
            VersionMismatchError: any other. The message says why, and what to do.
        """
        server, ours = release_number(self.release), release_number(client)
        if ours[:2] < OLDEST_CLIENT:
            oldest = ".".join(map(str, OLDEST_CLIENT))
            raise VersionMismatchError(
                f"this Airflow has pyspark {client}; expected {oldest} or newer: pip install "
                f"'pyspark-client>={oldest}', or, beside the whole of pyspark, both packages in the same version"
            )
        if server[0] != ours[0]:
            raise VersionMismatchError(
                f"Spark Connect server runs Spark {self.release}, this Airflow has pyspark {client}: a server of "
                f"another major release silently skips parts of plans; run the server on Spark {_usable(ours)}"
            )
        tried = TRIED.get(server[:2], ()) if _fits(server, ours) else ()
        if server[2] in tried:
            return
        if server < ours and not tried:
            raise VersionMismatchError(
                f"Spark Connect server runs Spark {self.release}, which is older than pyspark {client} and was not "
                "tested with it: it would silently skip newer parts of plans; run the server on Spark "
                f"{_usable(ours)}"
            )
        if not allow_untried and not tried:
            raise VersionMismatchError(
                f"Spark Connect server runs Spark {self.release}, which was not tested with this release of "
                f"airflow_abs; run the server on Spark {_usable(ours)}, or run `airflow-abs server check`, and if it "
                'finds nothing wrong put "allow_untried_spark": true into the extra of the connection'
            )
        _warn_once(self.release)


@cache
def _warn_once(release: str) -> None:
    _log.warning(
        "Spark Connect server runs Spark %s, which was not tested with this release of airflow_abs; `airflow-abs "
        "server check` tests it",
        release,
    )


def _fits(server: tuple[int, ...], client: tuple[int, ...]) -> bool:
    """Whether what was tried holds for this client, too: see `NEWEST_CLIENT`."""
    return server[:2] >= client[:2] or client[:2] <= NEWEST_CLIENT


def _usable(client: tuple[int, ...]) -> str:
    """What was tried and fits: "4.2.0, 4.3.0 or 4.3.1"; the client's own if nothing does."""
    tried: list[tuple[int, ...]] = [(*line, patch) for line, patches in TRIED.items() for patch in patches]
    *others, last = (".".join(map(str, each)) for each in [each for each in tried if _fits(each, client)] or [client])
    return f"{', '.join(others)} or {last}" if others else last


def release_number(version: str) -> tuple[int, ...]:
    """(4, 2, 0) of "4.2.0-amzn-1"; digits only, so a text that is no version is older than any ability."""
    parts = version.split("-", 1)[0].split("+", 1)[0].split(".")[:3]
    return tuple(int(part) if part.isdecimal() else 0 for part in parts)
