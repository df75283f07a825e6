"""A small world in the shape of TPC-DS: the tables and columns that the queries beside it read, 40,000 rows in all.

Not dsdgen's data: values are drawn from ranges in which every query finds rows. Foreign keys are NULL now and then, as
there; sales follow a skewed choice of items and customers. The same rows on every machine: numpy's seeded generator.
"""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_FIRST, _DAYS = date(1998, 1, 1), 4 * 365 + 1
_FIRST_KEY = 2450815
_ITEMS, _CUSTOMERS, _STORES, _ADDRESSES = 400, 1500, 6, 700
_CLASSES = {
    "Books": ("computers", "history"),
    "Electronics": ("stereo", "audio"),
    "Sports": ("football", "golf"),
    "Men": ("shirts", "pants"),
    "Jewelry": ("birdal", "rings"),
    "Women": ("dresses", "maternity"),
    "Home": ("bedding", "glassware"),
}
_SALES = {"store_sales": 24_000, "catalog_sales": 6_000, "web_sales": 6_000, "store_returns": 4_000}


def build_tables() -> dict[str, pa.Table]:
    """Every table by name."""
    import numpy as np
    import pyarrow as pa

    chance = np.random.default_rng(1)
    dimensions = {
        "date_dim": [_day(number) for number in range(_DAYS)],
        "item": [_item(number) for number in range(1, _ITEMS + 1)],
        "customer": [_customer(number) for number in range(1, _CUSTOMERS + 1)],
        "customer_address": [{"ca_address_sk": n, "ca_zip": f"{30000 + n % 40:05}-{n:04}"} for n in _keys(_ADDRESSES)],
        "customer_demographics": [_demographics(number) for number in range(1, 41)],
        "household_demographics": [_household(number) for number in range(1, 61)],
        "promotion": [
            {"p_promo_sk": n, "p_channel_email": "NY"[n % 2], "p_channel_event": "NNY"[n % 3]} for n in _keys(30)
        ],
        "store": [_store(number) for number in _keys(_STORES)],
    }
    tables = {name: pa.Table.from_pylist(rows) for name, rows in dimensions.items()}
    return tables | {
        "store_sales": _store_sales(chance),
        "store_returns": _sales(chance, "store_returns", "sr_returned_date_sk", "sr_item_sk", "sr_customer_sk")
        .append_column("sr_store_sk", _some(chance, _SALES["store_returns"], _STORES))
        .append_column("sr_return_amt", _money(chance, _SALES["store_returns"])),
        "catalog_sales": _sales(chance, "catalog_sales", "cs_sold_date_sk", "cs_item_sk", "cs_bill_customer_sk"),
        "web_sales": _sales(chance, "web_sales", "ws_sold_date_sk", "ws_item_sk", "ws_bill_customer_sk").append_column(
            "ws_sales_price", _money(chance, _SALES["web_sales"])
        ),
    }


def _store_sales(chance: np.random.Generator) -> pa.Table:
    """Eight lines or fewer a ticket; a ticket has one customer, day and store."""
    import numpy as np
    import pyarrow as pa

    count = _SALES["store_sales"]
    ticket = np.sort(chance.integers(1, count // 4, count))
    own = {
        name: _some(chance, count, most).take(pa.array(ticket))
        for name, most in {
            "ss_sold_date_sk": _DAYS,
            "ss_customer_sk": _CUSTOMERS,
            "ss_store_sk": _STORES,
            "ss_hdemo_sk": 60,
            "ss_cdemo_sk": 40,
        }.items()
    }
    own["ss_sold_date_sk"] = pa.compute.add(own["ss_sold_date_sk"], _FIRST_KEY - 1)
    return pa.table(
        {
            **own,
            "ss_ticket_number": ticket,
            "ss_item_sk": _skewed(chance, count, _ITEMS),
            "ss_promo_sk": _some(chance, count, 30),
            "ss_quantity": _some(chance, count, 100),
            **{
                name: _money(chance, count)
                for name in ("ss_list_price", "ss_sales_price", "ss_ext_sales_price", "ss_coupon_amt")
            },
        }
    )


def _sales(chance: np.random.Generator, table: str, day: str, item: str, customer: str) -> pa.Table:
    import pyarrow as pa

    count = _SALES[table]
    return pa.table(
        {
            day: pa.compute.add(_some(chance, count, _DAYS), _FIRST_KEY - 1),
            item: _skewed(chance, count, _ITEMS),
            customer: _some(chance, count, _CUSTOMERS),
        }
    )


def _some(chance: np.random.Generator, count: int, most: int) -> pa.Array:
    """Keys from 1 to `most`; one in fifty is NULL."""
    import pyarrow as pa

    return pa.array(chance.integers(1, most + 1, count), mask=chance.random(count) < 0.02)


def _skewed(chance: np.random.Generator, count: int, most: int) -> pa.Array:
    """Small keys more often than large ones; none is NULL."""
    import pyarrow as pa

    return pa.array((chance.random(count) ** 2 * most).astype("int64") + 1)


def _money(chance: np.random.Generator, count: int) -> pa.Array:
    """0.00 to 199.99, many of them small."""
    import pyarrow as pa

    cents = (chance.random(count) ** 3 * 20_000).astype("int64")
    return pa.array([Decimal(int(each)) / 100 for each in cents], pa.decimal128(7, 2))


def _keys(count: int) -> range:
    return range(1, count + 1)


def _day(number: int) -> dict[str, Any]:
    day = _FIRST + timedelta(days=number)
    return {
        "d_date_sk": _FIRST_KEY + number,
        "d_date": day,
        "d_year": day.year,
        "d_moy": day.month,
        "d_dom": day.day,
    }


def _item(number: int) -> dict[str, Any]:
    category = list(_CLASSES)[number % len(_CLASSES)]
    return {
        "i_item_sk": number,
        "i_item_id": f"AAAAAAAA{number // 2:08}",  # two versions of an item have one id
        "i_item_desc": f"Item {number} of the catalogue",
        "i_category": category,
        "i_class": _CLASSES[category][number // 7 % 2],
        "i_brand_id": 1000 + number % 25,
        "i_brand": f"brand #{number % 25}",
        "i_manufact_id": number % 40,
        "i_manager_id": number % 20,
        "i_current_price": Decimal(number % 90) + Decimal("0.99"),
    }


def _customer(number: int) -> dict[str, Any]:
    return {
        "c_customer_sk": number,
        "c_customer_id": f"CUSTOMER{number:08}",
        "c_first_name": ("Ann", "Bea", "Cem", "Dan", None)[number % 5],
        "c_last_name": ("Ames", "Bell", "Cole", "Diaz", "Engel", "Fox", None)[number % 7],
        "c_current_addr_sk": number * 13 % _ADDRESSES + 1,
    }


def _demographics(number: int) -> dict[str, Any]:
    return {
        "cd_demo_sk": number,
        "cd_gender": "MF"[number % 2],
        "cd_marital_status": "SMD"[number % 3],
        "cd_education_status": ("College", "Primary")[number % 4 > 1],
    }


def _household(number: int) -> dict[str, Any]:
    return {
        "hd_demo_sk": number,
        "hd_vehicle_count": number % 5 - 1,
        "hd_buy_potential": (">10000", "Unknown", "501-1000")[number % 3],
    }


def _store(number: int) -> dict[str, Any]:
    return {
        "s_store_sk": number,
        "s_store_name": ("able", "ation", "bar", "eing", "ese", "ought")[number - 1],
        "s_company_name": "Unknown",
        "s_state": ("TN", "TN", "GA")[number % 3],
        "s_zip": f"{30000 + number:05}",
    }
