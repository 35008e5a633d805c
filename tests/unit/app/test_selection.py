"""Which models a command means, and when it asks first."""

from __future__ import annotations

import pytest

from infer.app.failures import CommandError, ExitCode
from infer.app.selection import Selection, is_glob, is_loaded, matching, nearest, reasons_to_ask, select
from infer.tui.snapshot import ModelSnapshot, Overview, Server

KNOWN = ("tmp-a", "tmp-b", "keep", "we[ird")


def overview(*models: ModelSnapshot) -> Overview:
    return Overview(Server(), models)


def test_names_are_taken_as_they_are_each_once() -> None:
    assert select(["keep", "unknown", "keep"], KNOWN) == Selection(("keep", "unknown"))


def test_a_glob_is_every_name_that_it_fits_and_broad() -> None:
    assert select(["tmp-*"], KNOWN) == Selection(("tmp-a", "tmp-b"), broad=True)
    assert select(["keep", "tmp-?"], KNOWN) == Selection(("keep", "tmp-a", "tmp-b"), broad=True)
    assert select(["tmp-[b]"], KNOWN).names == ("tmp-b",)


def test_upper_and_lower_case_differ() -> None:
    assert matching("TMP-*", KNOWN) == ()


def test_a_name_that_looks_like_a_glob_is_a_name_where_there_is_one() -> None:
    assert is_glob("we[ird")
    assert select(["we[ird"], KNOWN).names == ("we[ird",)


def test_all_is_every_model_and_excludes_names() -> None:
    assert select([], KNOWN, every=True) == Selection(KNOWN, broad=True)
    with pytest.raises(CommandError) as caught:
        select(["keep"], KNOWN, every=True)
    assert caught.value.code is ExitCode.USAGE


def test_no_name_is_a_usage_error() -> None:
    with pytest.raises(CommandError) as caught:
        select([], KNOWN)
    assert caught.value.code is ExitCode.USAGE
    assert "--all" in caught.value.fix


@pytest.mark.parametrize(("known", "phrase"), [(KNOWN, "the choice is tmp-a"), ((), "none to choose from")])
def test_a_glob_that_fits_none_is_not_found(known: tuple[str, ...], phrase: str) -> None:
    with pytest.raises(CommandError) as caught:
        select(["zzz*"], known, kind="loaded ")
    assert caught.value.code is ExitCode.NOT_FOUND
    assert caught.value.what == "no loaded model fits 'zzz*'"
    assert phrase in caught.value.why


def test_the_nearest_name_is_suggested() -> None:
    assert nearest("kep", KNOWN) == "keep"
    assert nearest("zzzzz", KNOWN) == ""


def test_one_idle_model_needs_no_question() -> None:
    idle = overview(ModelSnapshot("a", "1", "READY", in_flight=0))
    assert reasons_to_ask(Selection(("a",)), idle) == ()
    assert reasons_to_ask(Selection(("a",)), None) == ()


def test_several_models_requests_in_flight_and_dependents_are_reasons() -> None:
    busy = overview(
        ModelSnapshot("a", "1", "READY", in_flight=1),
        ModelSnapshot("a", "2", "READY", in_flight=2),
        ModelSnapshot("chain", "1", "READY", depends_on=("a", "b")),
        ModelSnapshot("old", "1", "UNAVAILABLE", depends_on=("a",)),
    )
    assert reasons_to_ask(Selection(("a",)), busy) == ("'a' has 3 requests in flight", "'a' is a step of chain")
    assert reasons_to_ask(Selection(("a", "chain")), busy) == ("2 models", "'a' has 3 requests in flight")
    one = overview(ModelSnapshot("a", "1", "READY", in_flight=1))
    assert reasons_to_ask(Selection(("a",)), one) == ("'a' has 1 request in flight",)


def test_a_model_on_its_way_counts_as_loaded() -> None:
    assert is_loaded("a", overview(ModelSnapshot("a", "1", "LOADING")))
    assert not is_loaded("a", overview(ModelSnapshot("a", "1", "UNAVAILABLE"), ModelSnapshot("b", "1", "READY")))
