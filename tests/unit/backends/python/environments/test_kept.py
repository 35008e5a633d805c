"""Which environments are kept between runs, who holds them, and which of them go."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest

from infer.backends.python.environments import kept

if TYPE_CHECKING:
    from pathlib import Path

DAY_S = 86400


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The variables of a user whose cache is the test's."""
    return {"XDG_CACHE_HOME": str(tmp_path)}


def make(environ: dict[str, str], name: str, days: float = 0, *, finished: bool = True) -> Path:
    """An environment that was used last some days ago, as a server leaves it."""
    folder = kept.place(environ) / name
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").write_bytes(bytes(10_000))
    kept.lock_of(folder).touch()
    mark = folder / kept.MARK
    if finished:
        mark.write_text(json.dumps({"requirements": f"/m/{name}.txt", "version": "3.11.7 (main)"}))
    used = time.time() - days * DAY_S
    os.utime(mark if finished else folder, (used, used))
    return folder


def test_where_nothing_was_made_nothing_is_listed(environ: dict[str, str]) -> None:
    assert kept.listed(environ) == []


def test_they_are_listed_with_what_they_were_made_from_the_last_used_first(environ: dict[str, str]) -> None:
    make(environ, "old", days=9)
    make(environ, "new", days=1)
    new, old = kept.listed(environ)
    assert (new.folder.name, old.folder.name) == ("new", "old")
    assert (old.requirements, old.python, old.in_use) == ("/m/old.txt", "3.11.7", False)
    assert 10_000 <= old.size < 100_000
    assert time.time() - old.used_at == pytest.approx(9 * DAY_S, abs=60)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"version": null}'])
def test_a_mark_that_makes_no_sense_is_listed_without_its_origin(environ: dict[str, str], content: str) -> None:
    (make(environ, "odd") / kept.MARK).write_text(content)
    (odd,) = kept.listed(environ)
    assert odd.requirements == ""


def test_holding_one_is_a_use_and_keeps_it_until_it_is_let_go(environ: dict[str, str]) -> None:
    folder = make(environ, "one", days=9)
    shares = [kept.hold(folder), kept.hold(folder)]
    (one,) = kept.listed(environ)
    assert one.in_use
    assert time.time() - one.used_at < 60
    later = time.time() + 1
    for share in shares:
        assert share is not None
        assert not kept.remove(folder, later)
        os.close(share)
    assert kept.remove(folder, later)
    assert not folder.exists()
    assert kept.listed(environ) == []


def test_one_that_is_being_made_or_is_not_made_is_held_by_nobody(environ: dict[str, str]) -> None:
    assert kept.hold(make(environ, "half", finished=False)) is None
    assert kept.hold(kept.place(environ) / "none") is None


def test_one_whose_interpreter_was_removed_counts_as_not_made(environ: dict[str, str]) -> None:
    folder = make(environ, "one")
    assert kept.is_made(folder)
    (folder / "bin" / "python").unlink()
    assert not kept.is_made(folder)
    assert kept.hold(folder) is None


def test_one_that_was_used_since_stays(environ: dict[str, str]) -> None:
    folder = make(environ, "one", days=9)
    assert not kept.remove(folder, time.time() - 10 * DAY_S)
    assert (folder / kept.MARK).exists()
    assert kept.remove(folder, time.time() - 8 * DAY_S)


def test_one_whose_making_was_broken_off_goes_and_one_that_is_under_way_stays(environ: dict[str, str]) -> None:
    folder = make(environ, "half", days=9, finished=False)
    with kept._alone(kept.lock_of(folder)) as ours:
        assert ours
        assert kept.listed(environ)[0].in_use
        assert not kept.remove(folder, time.time())
    assert not kept.listed(environ)[0].in_use
    assert kept.remove(folder, time.time())


def test_what_is_removed_is_not_held_by_who_has_just_opened_it(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(environ, "one")
    lock = kept.fcntl.flock

    def first_it_goes(descriptor: int, how: int) -> None:
        (folder / kept.MARK).unlink()
        lock(descriptor, how)

    monkeypatch.setattr(kept.fcntl, "flock", first_it_goes)
    assert kept.hold(folder) is None


def test_while_it_is_removed_nobody_holds_it(environ: dict[str, str]) -> None:
    folder = make(environ, "one")
    with kept._alone(folder / kept.MARK) as ours:
        assert ours
        assert kept.hold(folder) is None


def test_what_is_gone_already_is_not_removed_again(environ: dict[str, str]) -> None:
    folder = make(environ, "one")
    assert kept.remove(folder, time.time() + 1)
    assert not kept.remove(folder, time.time() + 1)
