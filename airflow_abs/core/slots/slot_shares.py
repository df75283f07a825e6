"""The slots of one cluster, divided between several pools that deal them out: every triggerer has one of its own."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_abs.core.checks import check_int


def divide_slots(capacity: int, demands: Mapping[str, int]) -> dict[str, int]:
    """How many slots each pool may have in use, by its name; the same answer wherever it is computed.

    Max-min fair: a pool gets less than it asks for only if no other one gets more than it does (but for one slot, where
    that does not come out even). Slots without a claim are divided evenly, so that what comes next finds a slot. A pool
    that asks for any gets one at least, if there is any: with more pools than slots the sum is above the capacity.

    Args:
        demands: slots that each pool holds or waits for.
    """
    check_int("capacity", capacity, at_least=0)
    shares = dict.fromkeys(sorted(demands), 0)
    left = capacity
    while left and (hungry := [name for name in shares if shares[name] < demands[name]]):
        each = max(1, left // len(hungry))
        for name in hungry:
            given = min(each, demands[name] - shares[name], left)
            shares[name] += given
            left -= given
    for place, name in enumerate(shares):
        shares[name] += left // len(shares) + (place < left % len(shares))
        if capacity and demands[name]:
            shares[name] = max(1, shares[name])
    return shares
