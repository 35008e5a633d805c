"""Responses leave in the order in which requests took their turns, whatever order they come in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from infer.backends.api.response import InferenceResponse
from infer.server.scheduling.response_order import MAX_KEPT, ResponseOrder

MORE = InferenceResponse(final=False)
FINAL = InferenceResponse()


class Sender:
    """Where a request's responses come from."""

    def __init__(self) -> None:
        self.paused = False

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False


class Bench:
    def __init__(self, requests: str) -> None:
        self.order = ResponseOrder()
        self.seen: list[str] = []
        self.senders = {name: Sender() for name in requests}
        self.send = {name: self.order.take_turn(self._deliver(name), self.senders[name]) for name in requests}

    def _deliver(self, name: str):  # noqa: ANN202  what take_turn takes
        return lambda response: self.seen.append(name.upper() if response.final else name)

    @property
    def text(self) -> str:
        return "".join(self.seen)


def test_a_later_answer_waits_for_the_earlier_one() -> None:
    bench = Bench("abc")
    bench.send["c"](FINAL)
    bench.send["b"](FINAL)
    assert bench.text == ""
    bench.send["a"](FINAL)
    assert bench.text == "ABC"
    assert len(bench.order) == 0


def test_the_first_in_line_delivers_at_once() -> None:
    bench = Bench("ab")
    bench.send["a"](MORE)
    assert bench.text == "a"


def test_a_stream_holds_back_the_next_until_its_final_response() -> None:
    bench = Bench("ab")
    bench.send["b"](MORE)
    bench.send["a"](MORE)
    bench.send["b"](FINAL)
    bench.send["a"](MORE)
    assert bench.text == "aa"
    bench.send["a"](FINAL)
    assert bench.text == "aaAbB"


def test_a_stream_whose_turn_has_come_goes_on_at_once() -> None:
    bench = Bench("ab")
    bench.send["b"](MORE)
    bench.send["a"](FINAL)
    bench.send["b"](MORE)
    assert bench.text == "Abb"
    bench.send["b"](FINAL)
    assert len(bench.order) == 0


def test_whose_turn_has_not_come_is_paused_once_much_is_kept_and_goes_on_with_its_turn() -> None:
    bench = Bench("ab")
    for _ in range(MAX_KEPT - 1):
        bench.send["b"](MORE)
    assert not bench.senders["b"].paused
    bench.send["b"](MORE)
    bench.send["a"](MORE)
    assert (bench.senders["b"].paused, bench.senders["a"].paused) == (True, False)
    bench.send["a"](FINAL)
    assert not bench.senders["b"].paused
    assert bench.text == "aA" + "b" * MAX_KEPT


def test_a_pause_of_who_takes_what_was_kept_stands() -> None:
    order, late = ResponseOrder(), Sender()
    first = order.take_turn(lambda response: None, Sender())
    second = order.take_turn(lambda response: late.pause(), late)
    second(MORE)
    first(FINAL)
    assert late.paused


def test_what_a_delivery_sets_off_comes_after_it() -> None:
    order, seen = ResponseOrder(), []
    later = order.take_turn(lambda response: None, Sender())

    def deliver(response: InferenceResponse) -> None:
        if response.final:
            seen.append("first")
            third(FINAL)

    order_first = ResponseOrder()
    first = order_first.take_turn(deliver, Sender())
    second = order_first.take_turn(lambda response: seen.append("second"), Sender())
    third = order_first.take_turn(lambda response: seen.append("third"), Sender())
    second(FINAL)
    first(FINAL)
    later(FINAL)
    assert seen == ["first", "second", "third"]
    assert len(order_first) == len(order) == 0


@given(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_every_response_is_delivered_once_and_in_order(counts: list[int], random: object) -> None:
    names = "abcde"[: len(counts)]
    bench = Bench(names)
    left = {name: [MORE] * count + [FINAL] for name, count in zip(names, counts, strict=True)}
    while left:
        name = random.choice(sorted(left))
        bench.send[name](left[name].pop(0))
        if not left[name]:
            del left[name]
    assert bench.text == "".join(name * count + name.upper() for name, count in zip(names, counts, strict=True))
