"""Which sequence a request belongs to."""

from __future__ import annotations

import pytest

from infer.backends.api.errors import InvalidArgument
from infer.backends.api.model_config import ModelConfig
from infer.backends.api.request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from infer.server.scheduling.sequence_ids import SequenceIds


def ids(*, iterative: bool = False) -> SequenceIds:
    return SequenceIds(ModelConfig(name="m"), iterative=iterative)


def request(sequence: int | str = 0, flags: int = 0, rows: int = 1) -> InferenceRequest:
    return InferenceRequest("m", {}, correlation_id=sequence, flags=flags, batch_size=rows)


@pytest.mark.parametrize("iterative", [False, True])
@pytest.mark.parametrize("sequence", [1, 2**64 - 1, "mine", "1"])
def test_a_request_with_an_id_stays_as_it_is(*, iterative: bool, sequence: int | str) -> None:
    given = request(sequence)
    found, key = ids(iterative=iterative).identified(given, {sequence})
    assert (found, key) == (given, sequence)


@pytest.mark.parametrize("sequence", [0, ""])
def test_a_request_without_an_id_is_refused(sequence: int | str) -> None:
    with pytest.raises(InvalidArgument, match=r"^inference request to model 'm' must specify a non-zero or non-empty"):
        ids().identified(request(sequence, SEQUENCE_START), set())


@pytest.mark.parametrize("iterative", [False, True])
def test_a_request_of_several_rows_is_refused(*, iterative: bool) -> None:
    with pytest.raises(InvalidArgument, match=r"must specify batch-size 1 due to requirements of sequence batcher$"):
        ids(iterative=iterative).identified(request(1, rows=2), set())


def test_an_iterative_model_has_requests_without_an_id_numbered_and_begun() -> None:
    made = ids(iterative=True)
    given = request("", SEQUENCE_END)
    first, key = made.identified(given, set())
    assert (first.correlation_id, first.flags) == (1, SEQUENCE_START | SEQUENCE_END)
    assert (given.correlation_id, given.flags) == ("", SEQUENCE_END)
    second, other = made.identified(request(), {2, 3})
    assert second.correlation_id == 4
    assert len({key, other, 1, 4}) == 4


@pytest.mark.parametrize(("key", "shown"), [(5, "'5'"), ("mine", "'mine'"), (("given", 3), "'3'")])
def test_log_lines_name_a_sequence_and_its_model(key: int | str | tuple[str, int], shown: str) -> None:
    assert ids().shown(key) == f"{shown} of model 'm'"


def test_a_sequence_that_is_not_known_is_named_in_the_refusal() -> None:
    assert str(ids().unknown(request("mine"))) == (
        "inference request for sequence mine to model 'm' must specify the START flag on the first request of the "
        "sequence"
    )
