"""A world: actors over one storage, what may happen next, and what must hold after every step."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.model.actors import Actor, Clock, Killed

LONGER_THAN_ANY_LEASE = 10_000.0

Choice = tuple[str, int]
"""("run", actor), ("kill", actor) or ("sleep", 0): time passes, longer than any lease."""


class ViolationError(AssertionError):
    """An invariant does not hold; the message says which."""


@dataclass
class World:
    """`check` is called after every step, `finish` when all have ended; both raise ViolationError.

    `state` gives what the storage holds, to tell whether two schedules have come to the same.
    """

    actors: Sequence[Actor]
    clock: Clock
    check: Callable[[], None]
    finish: Callable[[], None]
    state: Callable[[], Hashable]
    expected: tuple[type[BaseException], ...] = ()
    kills: int = 0
    sleeps: int = 0
    close: Callable[[], None] = lambda: None
    done: list[Choice] = field(default_factory=list)

    def start(self) -> None:
        for actor in self.actors:
            actor.start()

    def choices(self) -> list[Choice]:
        """What may happen next; nothing if all have ended."""
        alive = [number for number, actor in enumerate(self.actors) if not actor.is_over]
        if not alive:
            return []
        runs = [("run", number) for number in alive]
        kills = [("kill", number) for number in alive if self.kills]
        return [*runs, *kills, *([("sleep", 0)] if self.sleeps else [])]

    def perform(self, choice: Choice) -> None:
        kind, number = choice
        self.done.append(choice)
        match kind:
            case "run":
                self.actors[number].step()
            case "kill":
                self.kills -= 1
                self.actors[number].kill()
            case _:
                self.sleeps -= 1
                self.clock.seconds += LONGER_THAN_ANY_LEASE
        actor = self.actors[number]
        if actor.is_over and actor.error is not None and not isinstance(actor.error, (Killed, *self.expected)):
            raise ViolationError(f"{actor.name} ended with {actor.error!r}") from actor.error
        self.check()

    def key(self) -> Hashable:
        """Worlds with the same key go on in the same ways."""
        actors = tuple((actor.seen, actor.is_over, actor.is_killed) for actor in self.actors)
        return (self.state(), self.clock.seconds, self.kills, self.sleeps, actors)

    def end(self) -> None:
        """Stop whoever is still there."""
        for actor in self.actors:
            if not actor.is_over:
                actor.kill()
        self.close()


Build = Callable[[], World]


def describe(world: World) -> str:
    """The schedule as text: who made how many calls in a row."""
    parts: list[list[Any]] = []
    for kind, number in world.done:
        what = "time passes" if kind == "sleep" else f"{kind} {world.actors[number].name}"
        if parts and parts[-1][0] == what:
            parts[-1][1] += 1
        else:
            parts.append([what, 1])
    return ", ".join(what if count == 1 else f"{what} x{count}" for what, count in parts)
