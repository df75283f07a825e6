"""Searching the schedules of a world: all of a small one, random ones of any."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from tests.model.world import Build, Choice, ViolationError, World, describe


@dataclass(frozen=True, slots=True)
class Found:
    """How much was searched; `violation` is what did not hold, in the last of the schedules, "" if all did."""

    schedules: int
    steps: int
    states: int = 0
    violation: str = ""


def search_at_random(build: Build, seed: int, schedules: int) -> Found:
    """So many schedules, each from a seed of its own."""
    steps = 0
    for number in range(schedules):
        chance = random.Random(f"{seed} {number}")  # noqa: S311
        world = build()
        try:
            world.start()
            _play(world, chance)
        except ViolationError as error:
            return Found(number + 1, steps + len(world.done), violation=f"{error}; after: {describe(world)}")
        finally:
            world.end()
        steps += len(world.done)
    return Found(schedules, steps)


def search_all(build: Build, limit: int = 10**9) -> Found:
    """Every schedule, less those that come to a state in which another one has been; at most `limit` schedules."""
    seen: set[Hashable] = set()
    open_: list[list[Choice]] = [[]]
    schedules = steps = 0
    while open_ and schedules < limit:
        world = build()
        schedules += 1
        try:
            world.start()
            _follow(world, open_.pop(), seen, open_)
        except ViolationError as error:
            return Found(schedules, steps + len(world.done), len(seen), f"{error}; after: {describe(world)}")
        finally:
            world.end()
        steps += len(world.done)
    return Found(schedules, steps, len(seen))


def search_pauses(build: Build, before: Sequence[str], paused: str, meanwhile: Sequence[str]) -> Found:
    """One schedule for each call of `paused` before which it may sleep while the others, by name, run to their ends in
    this order; `before` run first."""
    steps, number = 0, 0
    while True:
        world = build()
        try:
            world.start()
            for name in before:
                _run_to_end(world, name)
            ended = _run_to_end(world, paused, number)
            for name in (*meanwhile, paused):
                _run_to_end(world, name)
            world.finish()
        except ViolationError as error:
            return Found(number + 1, steps + len(world.done), violation=f"{error}; after: {describe(world)}")
        finally:
            world.end()
        steps += len(world.done)
        number += 1
        if ended:
            return Found(number, steps)


def _run_to_end(world: World, name: str, most: int = 10**6) -> bool:
    """Or so many steps; whether it has ended."""
    number = next(number for number, actor in enumerate(world.actors) if actor.name == name)
    for _ in range(most):
        if world.actors[number].is_over:
            break
        world.perform(("run", number))
    return world.actors[number].is_over


def _play(world: World, chance: random.Random) -> None:
    """One random schedule: some keep an actor going for long, some switch at every call."""
    stay = chance.choice([0.0, 0.5, 0.8, 0.95])
    events = chance.choice([0.01, 0.03, 0.1])
    last: Choice | None = None
    while choices := world.choices():
        runs = [choice for choice in choices if choice[0] == "run"]
        rare = [choice for choice in choices if choice[0] != "run"]
        if rare and chance.random() < events:
            choice = chance.choice(rare)
        elif last in runs and chance.random() < stay:
            choice = last  # type: ignore[assignment]
        else:
            choice = chance.choice(runs)
        last = choice
        world.perform(choice)
    world.finish()


def _follow(world: World, prefix: list[Choice], seen: set[Hashable], open_: list[list[Choice]]) -> None:
    for choice in prefix:
        world.perform(choice)
    while True:
        key = world.key()
        if key in seen:
            return
        seen.add(key)
        choices = world.choices()
        if not choices:
            world.finish()
            return
        open_.extend([*world.done, other] for other in choices[1:])
        world.perform(choices[0])
