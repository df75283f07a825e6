"""Publishing that is killed at any step: the target is the old or the new one, whole."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_abs.exchange.publish import local_folder
from airflow_abs.exchange.publish.publication import CommitMode, publish, read_commit
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from tests.exchange.publish.commits import KilledError, leftovers, stage, visible


def steps_of(root: ExchangePath, target: ExchangePath, mode: CommitMode) -> list[str]:
    steps: list[str] = []
    publish(target, stage(root, ["a", "b"], attempt=9), mode=mode, publisher=Publisher("dry run"), on_step=steps.append)
    return steps


@pytest.mark.parametrize("mode", ["overwrite", "append"])
@pytest.mark.parametrize("before", ["nothing", "something"])
@pytest.mark.parametrize("swaps", [True, False])
def test_stopped_at_any_step_and_run_again_the_target_is_whole(
    root: ExchangePath, mode: CommitMode, before: str, swaps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not swaps and not locate(root).is_local:
        pytest.skip("an object store swaps nothing")
    if locate(root).scheme == "s3" and (mode, before) != ("overwrite", "something"):
        pytest.skip("shown on the store in memory")
    if not swaps:
        monkeypatch.setattr(local_folder, "exchange", lambda one, other: False)
    steps = steps_of(root, root / "mart" / "dry" / "t", mode)
    for number in range(len(steps) + 1):  # the swap by two renames has one step more
        target = root / "mart" / f"t{number}" / "ds=1"
        old = ["old 1", "old 2"] if before == "something" else []
        if old:
            publish(target, stage(root, old, attempt=1), mode="overwrite", publisher=Publisher("run 1"))
        new = stage(root, ["new 1", "new 2", "new 3"], attempt=2)
        whole = [*(["new 1", "new 2", "new 3"]), *(old if mode == "append" else [])]

        remaining = [number]

        def stop(step: str, remaining: list[int] = remaining) -> None:
            remaining[0] -= 1
            if remaining[0] < 0:
                raise KilledError(step)

        with pytest.raises(KilledError) as caught:
            publish(target, new, mode=mode, publisher=Publisher("run 2"), on_step=stop)
        if locate(target).is_local and str(caught.value) != "moved aside":
            assert visible(target) in (old, whole), f"a mixture after {caught.value}"
        done = publish(target, new, mode=mode, publisher=Publisher("run 2"))
        assert visible(target) == whole, f"after {caught.value}"
        assert (done.files, leftovers(target)) == (3, []), f"after {caught.value}"


@pytest.mark.parametrize("mode", ["overwrite", "append"])
def test_another_run_cleans_up_after_one_that_was_killed(root: ExchangePath, mode: CommitMode) -> None:
    if locate(root).scheme == "s3" and mode == "append":
        pytest.skip("shown on the store in memory")
    for number, step in enumerate(steps_of(root, root / "mart" / "dry" / "t", mode)):
        target = root / "mart" / f"t{number}" / "ds=1"
        publish(target, stage(root, ["old"], attempt=1), mode="overwrite", publisher=Publisher("run 1"))

        def stop(done: str, at: str = step) -> None:
            if done.rsplit(maxsplit=1)[-1] == at.rsplit(maxsplit=1)[-1]:
                raise KilledError(done)

        with pytest.raises(KilledError):
            publish(target, stage(root, ["lost 1", "lost 2"], 2), mode=mode, publisher=Publisher("run 2"), on_step=stop)
        committed = read_commit(target)
        assert committed is not None
        published = committed.of(Publisher("run 2")) != []
        publish(target, stage(root, ["new"], attempt=3), mode=mode, publisher=Publisher("run 3"))
        lost = ["lost 1", "lost 2"] if published else []
        assert visible(target) == ([*lost, "new", "old"] if mode == "append" else ["new"]), f"after {step}"
        assert leftovers(target) == [], f"after {step}"


KILL_AT_EVERY_STEP = """
import os, sys
from pathlib import Path
from airflow_abs.exchange.publish.publication import StagedFile, publish
from airflow_abs.exchange.publish.publisher import Publisher

root, mode, swaps = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "True"
if not swaps:
    from airflow_abs.exchange.publish import local_folder
    local_folder.exchange = lambda one, other: False

def stage(names):
    paths = [root / name for name in names]
    for path in paths:
        path.write_text(path.name)
    return [StagedFile(path, path.name, len(path.name), 1) for path in paths]

def seen(target):
    return sorted(path.read_text() for path in target.glob("part-*")) if target.exists() else None

old, new = stage(["old1", "old2"]), stage(["new1", "new2"])
for number in range(100):
    target = root / "mart" / f"t{number}" / "ds=1"
    publish(target, old, mode="overwrite", publisher=Publisher("run 1"))
    child = os.fork()
    if child == 0:
        left = [number]
        def die(step):
            if left[0] == 0:
                os._exit(9)  # no finally block runs, as after SIGKILL
            left[0] -= 1
        publish(target, new, mode=mode, publisher=Publisher("run 2"), on_step=die)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    after = [*(["new1", "new2"]), *(["old1", "old2"] if mode == "append" else [])]
    assert seen(target) in (["old1", "old2"], after) + (() if swaps else (None,)), seen(target)
    publish(target, new, mode=mode, publisher=Publisher("run 2"))
    assert seen(target) == after, (number, seen(target))
    assert sorted(path.name for path in (root / "mart").iterdir() if path.name.startswith(".")) == []
    if code == 0:
        print(number)
        break
"""


@pytest.mark.parametrize("mode", ["overwrite", "append"])
@pytest.mark.parametrize("swaps", [True, False])
def test_a_process_killed_at_any_step_leaves_old_or_new(tmp_path: Path, mode: str, swaps: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILL_AT_EVERY_STEP, str(tmp_path), mode, str(swaps)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 9  # so many steps were tried


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["overwrite", "append"]),
            st.sampled_from(["run 1", "run 2", "run 3"]),
            st.lists(st.sampled_from("abcdef"), max_size=3),
            st.integers(0, 12),
        ),
        max_size=8,
    )
)
def test_any_story_of_runs_and_kills_ends_as_its_model(story: list[tuple[CommitMode, str, list[str], int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        model: dict[str, list[str]] = {}
        done: dict[str, tuple[str, int | None]] = {}
        for number, (mode, identity, contents, kill_at) in enumerate(story):
            staged = stage(root, contents, attempt=number)
            left = [kill_at]

            def stop(step: str, left: list[int] = left) -> None:
                left[0] -= 1
                if left[0] < 0:
                    raise KilledError(step)

            try:
                publish(root / "m" / "t", staged, mode=mode, publisher=Publisher(identity), on_step=stop)
            except KilledError:
                publish(root / "m" / "t", staged, mode=mode, publisher=Publisher(identity))
            what = (mode, number if contents else None)  # attempts differ, but no files are always the same no files
            if identity not in model or done[identity] != what:
                model = {**(model if mode == "append" else {}), identity: contents}
            done[identity] = what
            assert visible(root / "m" / "t") == sorted(content for contents in model.values() for content in contents)
