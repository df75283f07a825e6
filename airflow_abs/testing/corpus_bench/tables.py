"""The handful of small tables that the corpus reads: NULL keys, duplicates, a key with half of the rows, decimals, odd
doubles, timestamps, arrays, maps and structs. Doubles are dyadic, so sums of them are exact in any order."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_START = datetime(2026, 1, 1, tzinfo=UTC)
_REGIONS = ("north", "south", "east", None)


def _order(number: int) -> dict[str, Any]:
    customer = 1 if number % 5 in (0, 1) else None if number % 11 == 2 else number % 7 + 1
    return {
        "id": number,
        "customer": customer,
        "region": _REGIONS[(number * 7) % 4],
        "amount": Decimal(number * 13 % 50) + Decimal("0.25"),
        "price": (number * 5 % 16) / 4 if number % 9 else None,
        "qty": number % 6,
        "at": _START + timedelta(hours=number * 5, minutes=number),
        "day": (_START + timedelta(hours=number * 5)).date(),
        "tags": ["a", "b", "c", "d"][: number % 4] if number % 8 else None,
        "attrs": {"size": number % 3, f"k{number % 2}": number},
        "address": {"city": f"city {number % 3}", "zip": number % 4},
        "body": json.dumps({"sku": f"s{number % 5}", "lines": [{"n": number}, {"n": number % 3}]}),
        "flag": number % 3 == 0,
    }


def _customer(number: int) -> dict[str, Any]:
    return {
        "customer": number if number < 9 else None,
        "long_key": number,
        "name": f"customer {number}",
        "home": _REGIONS[number % 4],
        "since": date(2020, 1, 1) + timedelta(days=100 * number),
        "discount": number / 8,
    }


def _event(number: int) -> dict[str, Any]:
    twin = number - number % 2 if number < 12 else number  # the first dozen are six rows, each twice
    return {
        "customer": (1, 1, 1, 2, 3, None, 4)[twin % 7],
        "kind": ("view", "cart", "buy")[twin % 3],
        "at": _START + timedelta(minutes=twin * 17 + (600 if twin > 20 else 0)),
        "value": twin / 4,
    }


def _tier(number: int) -> dict[str, Any]:
    begin = date(2025, 12, 30) + timedelta(days=4 * (number % 3))
    return {
        "customer": number // 3 + 1,
        "valid_from": begin,
        "valid_to": begin + timedelta(days=4) if number % 3 < 2 else None,
        "tier": ("bronze", "silver", "gold")[number % 3],
    }


def _key(number: int) -> dict[str, Any]:
    return {
        "real": (0.0, -0.0, float("nan"), None, 1.5, -2.5)[number % 6],
        "exact": Decimal(number % 4) / 2 if number % 7 else None,
        "big": number % 5,
        "small": number % 5,
        "text": ("x", "X", "x ", "", None)[number % 5],
        "n": number,
    }


def build_tables() -> dict[str, pa.Table]:
    """Every table by name."""
    import pyarrow as pa

    utc = pa.timestamp("us", tz="UTC")
    text, whole, long = pa.string(), pa.int32(), pa.int64()
    orders = {
        "id": long, "customer": whole, "region": text, "amount": pa.decimal128(12, 2), "price": pa.float64(),
        "qty": whole, "at": utc, "day": pa.date32(), "tags": pa.list_(text), "attrs": pa.map_(text, whole),
        "address": pa.struct({"city": text, "zip": whole}), "body": text, "flag": pa.bool_(),
    }  # fmt: skip
    customers = {
        "customer": whole, "long_key": long, "name": text, "home": text, "since": pa.date32(), "discount": pa.float64(),
    }  # fmt: skip
    events = {"customer": whole, "kind": text, "at": utc, "value": pa.float64()}
    history = {"customer": whole, "valid_from": pa.date32(), "valid_to": pa.date32(), "tier": text}
    keys = {
        "real": pa.float64(), "exact": pa.decimal128(10, 2), "big": long, "small": whole, "text": text, "n": long,
    }  # fmt: skip
    rows = {
        "orders": (orders, map(_order, range(60))),
        "customers": (customers, map(_customer, range(1, 11))),
        "events": (events, map(_event, range(36))),
        "history": (history, map(_tier, range(15))),
        "keys": (keys, map(_key, range(40))),
    }
    return {name: pa.Table.from_pylist(list(found), pa.schema(types)) for name, (types, found) in rows.items()}
