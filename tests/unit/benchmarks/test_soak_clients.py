"""How a client judges what became of its request."""

from __future__ import annotations

import pytest

pytest.importorskip("grpc")

from grpc_messages import Answer
from soak_clients import UNARY_MODELS, Crowd, Maker, Request
from soak_ledger import Tally

CROWD = Crowd(streams=1, unary=1, channels=1, seconds=1, seed=7)


def judged(*answers: Answer, cut: bool = False, error: str = "") -> Tally:
    request, tally = Request("m", b"", [b"0", b"1"]), Tally()
    for answer in answers:
        request.take(answer)
    request.error = request.error or error
    request.verdict(tally, cut=cut)
    return tally


ONE, TWO = Answer(outputs=[b"0"], final=False), Answer(outputs=[b"1"], final=False)
END = Answer(final=True)


@pytest.mark.parametrize("cut", [True, False])
def test_all_responses_and_the_final_one_are_an_answer_also_to_who_meant_to_cut(*, cut: bool) -> None:
    tally = judged(ONE, TWO, END, cut=cut)
    assert (tally.answered, tally.cut, tally.refused, tally.responses, tally.wrong) == (1, 0, 0, 2, [])


def test_the_final_flag_may_come_with_the_last_data() -> None:
    assert judged(ONE, Answer(outputs=[b"1"], final=True)).answered == 1


def test_a_request_that_was_cut_may_lack_its_end() -> None:
    tally = judged(ONE, cut=True)
    assert (tally.cut, tally.wrong) == (1, [])


def test_a_request_that_was_cut_must_not_get_the_responses_of_another() -> None:
    assert "not its own" in judged(TWO, cut=True).wrong[0]


@pytest.mark.parametrize(
    "tally",
    [
        judged(ONE, TWO),
        judged(ONE, END),
        judged(TWO, ONE, END),
        judged(ONE, TWO, END, TWO),
        judged(ONE, Answer(error="the model failed")),
        judged(error="UNAVAILABLE: gone"),
        judged(Answer(error="the model failed"), cut=True),
    ],
    ids=["no end", "one too few", "wrong order", "after the end", "an error", "a broken call", "an error, then cut"],
)
def test_everything_else_is_a_refusal_with_a_sentence(tally: Tally) -> None:
    assert (tally.answered, tally.cut, tally.refused, len(tally.wrong)) == (0, 0, 1, 1)


def test_the_same_seed_makes_the_same_requests_and_another_client_others() -> None:
    first, again, other = Maker(CROWD, 3), Maker(CROWD, 3), Maker(CROWD, 4)
    made = [maker.request(UNARY_MODELS).message for maker in (first, again, other)]
    assert made[0] == made[1] != made[2]
    assert first.fate() == again.fate()


def test_nobody_cuts_where_nobody_is_to() -> None:
    maker = Maker(Crowd(1, 1, 1, 1, 7, cut=0), 1)
    assert {maker.fate()[0] for _ in range(50)} == {"none"}
    maker = Maker(Crowd(1, 1, 1, 1, 7, cut=1), 1)
    assert {maker.fate()[0] for _ in range(50)} == {"cancel", "deadline"}
