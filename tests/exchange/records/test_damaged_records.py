"""Whatever becomes of a record of the exchange, reading it gives a named error or a whole record, never a bare one."""

from __future__ import annotations

import copy
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_abs.core.durability.strange_day import usual_bytes
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.exchange.errors import DamagedFileError, ExchangeError, StoredFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.publish.publication import read_commit
from airflow_abs.exchange.records.decisions import read_decision
from airflow_abs.exchange.records.job_history import history_from_json, read_history, remember_run
from airflow_abs.exchange.records.manifest import read_manifest
from airflow_abs.exchange.records.plan import read_plan, region_options
from airflow_abs.exchange.records.recovery_claim import read_claim
from airflow_abs.exchange.records.server_record import read_server
from airflow_abs.exchange.records.slices import cut_slices, read_slice, write_slices
from airflow_abs.exchange.records.tries import read_try
from airflow_abs.exchange.runs.past_run import past_run
from airflow_abs.exchange.runs.recorded import recorded_job
from airflow_abs.exchange.runs.replayed import replay_run
from airflow_abs.exchange.runs.run_json import run_to_json
from airflow_abs.exchange.runs.run_reading import read_run
from airflow_abs.exchange.storage.whole_files import decode_json, encode_json, read_json
from airflow_abs.spark.errors import would_happen_again

pytestmark = pytest.mark.slow

WHOLE = Path(__file__).parent.parent / "runs" / "written_at_80fdde5"

Way = tuple[str | int, ...]


def use_plan(folder: JobFolder) -> None:
    plan = read_plan(folder)
    for region in plan.regions:
        region_options(plan, region)
        for entry in region.inputs:
            plan.region(entry.region).step(entry.result)
        for sink in region.sinks:
            region.step(sink.result)


def use_decision(folder: JobFolder) -> None:
    for region in ("orders", "enriched"):
        stored = read_decision(folder, region)
        stored.decision.describe()
        for subtask in stored.decision.subtasks:
            for source in stored.files:
                stored.files_of(subtask.index, source)


def use_slice(folder: JobFolder) -> None:
    region = read_plan(folder).region("enriched")
    found = read_slice(folder, region, 0, decision="91891a24334add9b")
    for files in found.rescaled.values():
        files.located(files.span)


def use_manifest(folder: JobFolder) -> None:
    manifest = read_manifest(folder, "orders", 0)
    for result in manifest.results.values():
        assert result.bytes >= 0
        assert result.rows >= 0


def use_history(folder: JobFolder) -> None:
    """Who runs reads it without an error, whatever it holds."""
    found = read_history(JobFolder(folder.root, folder.dag_id, "next", folder.job))
    usual_bytes(found)
    assert found == history_from_json(read_json(folder.history_path), where=str(folder.history_path))


READERS: dict[str, Callable[[JobFolder], object]] = {
    "exchange/dag/run/job/plan.json": use_plan,
    "exchange/dag/run/job/orders/decision.json": use_decision,
    "exchange/dag/run/job/enriched/subtask-0/slice.json": use_slice,
    "exchange/dag/run/job/enriched/decision.json": use_decision,
    "exchange/dag/run/job/orders/subtask-0/manifest.json": use_manifest,
    "exchange/dag/run/job/orders/subtask-0/try-1.json": lambda folder: read_try(folder, "orders", 0, 1),
    "exchange/dag/run/job/orders/subtask-0/recovery-1001.json": lambda folder: read_claim(folder, "orders", 0, 1001),
    "exchange/dag/run/job/server.json": read_server,
    "exchange/dag/_history/job.json": use_history,
    "mart/_airflow_abs_commit": lambda folder: read_commit(Path(str(folder.root)).parent / "mart"),
}
VALUES: list[Any] = [None, True, 0, -1, 7, 2.5, 10**30, "", "x", [], [1], {}, {"x": 1}, [[]], [{}]]
"""What takes the place of a value: something of every type, and of the bounds of numbers."""


def ways_into(value: Any, before: Way = ()) -> Iterator[Way]:
    """The way to everything in a record."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield (*before, key)
        yield from ways_into(entry, (*before, key))


def without(payload: dict[str, Any], way: Way) -> dict[str, Any]:
    changed, last = inside(payload, way)
    del last[way[-1]]
    return changed


def replaced(payload: dict[str, Any], way: Way, value: Any) -> dict[str, Any]:
    changed, last = inside(payload, way)
    last[way[-1]] = value
    return changed


def inside(payload: dict[str, Any], way: Way) -> tuple[dict[str, Any], Any]:
    changed = node = copy.deepcopy(payload)
    for key in way[:-1]:
        node = node[key]
    return changed, node


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a history and slices, which that version did not write."""
    root = Path(shutil.copytree(WHOLE, tmp_path_factory.mktemp("damaged") / "root"))
    folder = JobFolder(root / "exchange", "dag", "run", "job")
    remember_run(folder, past_run(read_run(folder), "2026-01-05", 1.0, would_happen_again))
    write_slices(folder, "enriched", cut_slices(read_decision(folder, "enriched")))
    return root


def read(root: Path, name: str, data: bytes) -> None:
    """Read the record that lies there with this content, alone and in the whole run, up to an error of the exchange.

    One of a stored file says which.
    """
    file = root / name
    kept = file.read_bytes()
    file.write_bytes(data)
    try:
        for use in (READERS[name], view, decide_again):
            error = error_of(use, JobFolder(root / "exchange", "dag", "run", "job"))
            assert not isinstance(error, StoredFileError) or error.path in str(error)
    finally:
        file.write_bytes(kept)


def error_of(use: Callable[[JobFolder], object], folder: JobFolder) -> ExchangeError | None:
    try:
        use(folder)
    except ExchangeError as error:
        return error
    return None


def view(folder: JobFolder) -> None:
    run_to_json(read_run(folder))


def decide_again(folder: JobFolder) -> None:
    """What a decision rests on may be readable and yet nothing that the core decides from; it says so itself."""
    run = read_run(folder)
    with suppress(InvalidValueError):
        replay_run(run)
    recorded_job(run)


@pytest.mark.parametrize("name", READERS)
def test_the_whole_record_is_read(copied: Path, name: str) -> None:
    folder = JobFolder(copied / "exchange", "dag", "run", "job")
    assert [error_of(use, folder) for use in (READERS[name], view, decide_again)] == [None] * 3


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_record_with_another_structure_is_refused_by_name_or_whole(
    copied: Path, name: str, data: st.DataObject
) -> None:
    where = str(copied / name)
    payload = decode_json((copied / name).read_bytes(), where=where)
    for _ in range(data.draw(st.integers(1, 3))):
        way = data.draw(st.sampled_from(list(ways_into(payload)) or [()]))
        if way == ():
            break
        if data.draw(st.booleans()):
            payload = without(payload, way)
        else:
            payload = replaced(payload, way, data.draw(st.sampled_from(VALUES)))
    read(copied, name, encode_json(payload))


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_record_with_other_bytes_is_refused_by_name(copied: Path, name: str, data: st.DataObject) -> None:
    whole = (copied / name).read_bytes()
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, min(len(whole), start + 20)))
    read(copied, name, whole[:start] + data.draw(st.binary(max_size=8)) + whole[stop:])


MUTATIONS = 5_000  # over all records


@pytest.mark.parametrize("name", READERS)
def test_thousands_of_mutations_are_each_a_whole_record_or_an_error_that_names_the_file(
    copied: Path, name: str
) -> None:
    """By seed, without the rest of the run: half of them of bytes, half of them of fields under a right checksum."""
    chance = random.Random(name)  # noqa: S311
    whole = (copied / name).read_bytes()
    payload = decode_json(whole, where=name)
    ways, folder = list(ways_into(payload)), JobFolder(copied / "exchange", "dag", "run", "job")
    refused = 0
    try:
        for number in range(-(-MUTATIONS // len(READERS))):
            mutated = mutate_bytes(whole, chance) if number % 2 else mutate_fields(payload, ways, chance)
            (copied / name).write_bytes(mutated)
            error = error_of(READERS[name], folder)
            if error is not None:
                assert isinstance(error, StoredFileError), f"{error!r} of {mutated[:500]!r}"
                assert name.rpartition("/")[2] in error.path
                assert error.path in str(error)
                refused += 1
    finally:
        (copied / name).write_bytes(whole)
    assert refused > 0 or name.rpartition("/")[2].startswith(("try-", "recovery-"))  # those count as not there


def mutate_bytes(whole: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(whole) + 1)
    match chance.randrange(4):
        case 0:
            return whole[:start]
        case 1:
            return whole[:start] + chance.randbytes(chance.randrange(1, 8)) + whole[start:]
        case 2:
            return whole[:start] + whole[min(len(whole), start + chance.randrange(1, 20)) :]
        case _:
            flipped = bytearray(whole)
            flipped[start % len(whole)] ^= 1 << chance.randrange(8)
            return bytes(flipped)


def mutate_fields(payload: dict[str, Any], ways: Sequence[Way], chance: random.Random) -> bytes:
    way = chance.choice(ways)
    changed = without(payload, way) if chance.random() < 0.3 else replaced(payload, way, chance.choice(VALUES))
    return encode_json(changed)


REQUIRED = {
    "exchange/dag/run/job/plan.json": ["id", "regions", "options", "slots", "spark_version"],
    "exchange/dag/run/job/orders/decision.json": [
        "plan", "decision", "files", "producers", "producer_decisions", "measured",
    ],
    "exchange/dag/run/job/orders/subtask-0/manifest.json": [
        "region", "index", "attempt", "decision", "seconds", "results",
    ],
    "exchange/dag/_history/job.json": ["runs"],
    "exchange/dag/run/job/server.json": ["key", "application", "submitted", "host", "port"],
    "mart/_airflow_abs_commit": ["entries"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, keys in REQUIRED.items() for key in keys])
def test_a_missing_field_is_named_with_the_file_and_what_to_do(copied: Path, name: str, key: str) -> None:
    whole = (copied / name).read_bytes()
    payload = decode_json(whole, where="")
    (copied / name).write_bytes(encode_json(without(payload, (key,))))
    try:
        with pytest.raises(
            DamagedFileError, match=f"{name}: Object missing required field `{key}`; .*: clear"
        ) as caught:
            READERS[name](JobFolder(copied / "exchange", "dag", "run", "job"))
        assert caught.value.path == str(copied / name)
    finally:
        (copied / name).write_bytes(whole)


@pytest.mark.parametrize(
    ("name", "way", "value", "message"),
    [
        ("plan.json", ("options", "strategy"), "best", r"options: Invalid enum value 'best' - at `\$.strategy`"),
        (
            "plan.json",
            ("regions", 2, "inputs", 0, "region"),
            "nowhere",
            "'enriched' reads 'orders.*', which no step of",
        ),
        ("plan.json", ("regions", 3, "sinks", 0, "result"), "x", "region 'by_region' publishes result 'x', which no"),
        ("plan.json", ("regions", 3, "steps", 0, "local"), {"a": "x"}, "of 'by_region' reads 'x', which none before"),
        ("plan.json", ("regions", 1, "name"), "orders", "there are two regions 'orders'"),
        ("orders/decision.json", ("decision", "version"), 9, "expected format version 1, found 9"),
        ("orders/decision.json", ("decision", "parallelism"), "2", r"decision: Expected `int`, got `str` - at"),
        ("orders/decision.json", ("decision", "parallelism"), 5, "it has 2 subtasks at a parallelism of 5"),
        ("orders/decision.json", ("files",), {}, r"subtask 0 has splits of \['orders.source'\], expected \[\]"),
        ("orders/decision.json", ("files", "orders.source"), [], r"reads splits of orders.source outside \[0, 0\)"),
        (
            "orders/decision.json",
            ("decision", "inputs", 0, "name"),
            "x",
            r"from sources \['x'\], expected \['orders.source'",
        ),
        ("enriched/decision.json", ("producer_decisions",), {}, r"are of \[\], expected \['customers', 'orders'\]"),
    ],
)
def test_a_field_that_leads_nowhere_is_named(copied: Path, name: str, way: Way, value: Any, message: str) -> None:
    name = f"exchange/dag/run/job/{name}"
    whole = (copied / name).read_bytes()
    (copied / name).write_bytes(encode_json(replaced(decode_json(whole, where=""), way, value)))
    try:
        with pytest.raises(DamagedFileError, match=message):
            READERS[name](JobFolder(copied / "exchange", "dag", "run", "job"))
    finally:
        (copied / name).write_bytes(whole)


def test_a_decision_that_does_not_fit_the_plan_is_a_problem_of_its_region(copied: Path) -> None:
    file = copied / "exchange/dag/run/job/enriched/decision.json"
    whole = file.read_bytes()
    payload = decode_json(whole, where="")
    for changed, message in [
        (replaced(payload, ("measured", "enriched.orders", 0), 1), "'enriched.orders' by producer does not add up"),
        (
            without(payload, ("measured", "enriched.customers")),
            "it says nothing of 'enriched.customers', which the plan",
        ),
        (
            replaced(payload, ("measured", "enriched.customers"), [1]),
            "enriched.customers",
        ),
    ]:
        file.write_bytes(encode_json(changed))
        problems = read_run(JobFolder(copied / "exchange", "dag", "run", "job")).region("enriched").problems
        assert any(message in problem for problem in problems), problems
    file.write_bytes(whole)
