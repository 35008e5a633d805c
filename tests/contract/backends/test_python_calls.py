"""Models that call models (BLS) in a whole server: side by side, from everywhere, and never in a circle."""

from __future__ import annotations

import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infer
from infer.backends.api.errors import Code, InferError
from infer.server.scheduling import wait_watch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

LIMIT_S = 20
CONFIG = """
backend: "python"
max_batch_size: {rows}
input [ {{ name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }} ]
output [ {{ name: "OUT" data_type: TYPE_INT32 dims: [ -1 ] }} ]
instance_group [ {{ kind: KIND_CPU count: {count} }} ]
{more}
"""
DECOUPLED = "model_transaction_policy { decoupled: true }"
HEADER = """
import asyncio, threading, time
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import triton_python_backend_utils as pb_utils
Response = pb_utils.InferenceResponse

def tensor(request):
    return pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()

def out(array, **more):
    return Response([pb_utils.Tensor("OUT", np.asarray(array, np.int32))], **more)

def request(name, array, **more):
    return pb_utils.InferenceRequest(
        model_name=name, inputs=[pb_utils.Tensor("IN", np.asarray(array, np.int32))],
        requested_output_names=["OUT"], **more)

def value(response):
    if response.has_error():
        raise pb_utils.TritonModelException(f"{response.error().code().name} {response.error().message()}")
    return response.output_tensors()[0].as_numpy()

"""
PLAIN = (
    "class TritonPythonModel:\n    def execute(self, requests):\n        return [self.one(each) for each in requests]\n"
)
COROUTINE = (
    "class TritonPythonModel:\n    async def execute(self, requests):\n"
    "        return [await self.one(each) for each in requests]\n"
)
MODELS: dict[str, tuple[str, dict[str, Any]]] = {}


def model(name: str, source: str, **config: Any) -> None:
    """Have a model of this name in the repository: ``count`` instances, ``rows`` a batch, ``more`` configuration."""
    MODELS[name] = (source, config)


def plain(name: str, body: str, **config: Any) -> None:
    """A model whose ``one(request)`` makes the answer."""
    model(name, PLAIN + textwrap.indent("def one(self, each):\n" + textwrap.indent(body, "    "), "    "), **config)


def coroutine(name: str, body: str, **config: Any) -> None:
    """The same with a coroutine."""
    source = "async def one(self, each):\n" + textwrap.indent(body, "    ")
    model(name, COROUTINE + textwrap.indent(source, "    "), **config)


plain("double", "return out(tensor(each) * 2)\n")
plain("sleepy", "time.sleep(tensor(each)[0] / 1000); return out(tensor(each))\n", count=8)
coroutine("wrapper", "return out(value(await request('sleepy', tensor(each)).async_exec()))\n")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[infer.Server]:
    repository = tmp_path_factory.mktemp("repository")
    for name, (source, config) in MODELS.items():
        folder = repository / name / "1"
        folder.mkdir(parents=True)
        text = CONFIG.format(**{"rows": 0, "count": 1, "more": "", **config})
        (folder.parent / "config.pbtxt").write_text(text)
        (folder / "model.py").write_text(HEADER + source)
    with infer.Server(repository) as server:
        yield server


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int32)


def ask(server: infer.Server, name: str, *values: int, rows: bool = False) -> list[int]:
    """What a model answers."""
    array = ints(*values).reshape(1, -1) if rows else ints(*values)
    return server.infer(name, {"IN": array}, timeout_s=LIMIT_S)["OUT"].ravel().tolist()


def ask_all(server: infer.Server, name: str, questions: Sequence[Sequence[int]]) -> list[list[int]]:
    """The same, many at once."""
    with ThreadPoolExecutor(len(questions)) as pool:
        return list(pool.map(lambda question: ask(server, name, *question), questions))


def refusal(server: infer.Server, name: str, *values: int) -> InferError:
    """The error that a model answers with."""
    with pytest.raises(InferError) as raised:
        ask(server, name, *values)
    return raised.value


# -- executions that overlap --------------------------------------------------------------------------------------


def test_calls_of_one_wrapper_with_a_coroutine_really_overlap(server: infer.Server) -> None:
    """CASE-21 (server#7888): eight calls take less than two and a half of them."""
    before = time.monotonic()
    assert ask_all(server, "wrapper", [[1000]] * 8) == [[1000]] * 8
    assert time.monotonic() - before < 2.5


def test_what_waits_waits_at_the_slow_model_and_not_at_the_wrapper(server: infer.Server) -> None:
    """CASE-21 (server#7888): twenty calls of a model that has eight instances."""
    most = {"sleepy": 0, "wrapper": 0}
    with ThreadPoolExecutor(20) as pool:
        answers = [pool.submit(ask, server, "wrapper", 200) for _ in range(20)]
        while not all(answer.done() for answer in answers):
            for name, count in most.items():
                most[name] = max(count, server.statistics(name)[0].pending)
    assert most["sleepy"] >= 4
    assert most["wrapper"] == 0


coroutine("sleeper", "await asyncio.sleep(tensor(each)[0] / 1000); return out(tensor(each))\n")
coroutine(
    "moody",
    """
number = tensor(each)[0]
if number == 1:
    raise ValueError("one too many")
if number == 2:
    asyncio.current_task().cancel()
if number == 3:
    asyncio.get_running_loop().stop()
if number == 4:
    raise SystemExit(9)
await asyncio.sleep(0.1)
return out([number])
""",
)


def test_what_starts_first_need_not_end_first(server: infer.Server) -> None:
    ended: list[int] = []
    with ThreadPoolExecutor(2) as pool:
        for each in (400, 1):
            pool.submit(ask, server, "sleeper", each).add_done_callback(lambda done: ended.extend(done.result()))
    assert ended == [1, 400]


def test_an_exception_in_a_coroutine_fails_its_own_request_only(server: infer.Server) -> None:
    def outcome(number: int) -> str:
        try:
            return str(ask(server, "moody", number))
        except InferError as exc:
            return str(exc)

    with ThreadPoolExecutor(4) as pool:
        good, bad, cancelled, other = pool.map(outcome, (0, 1, 2, 5))
    assert (good, other) == ("[0]", "[5]")
    begin = "Failed to process the request(s) for model 'moody_0_0', message: "
    assert bad.startswith(f"{begin}ValueError: one too many\n\nAt:\n")
    assert "model.py" in bad
    assert cancelled.startswith(f"{begin}CancelledError: ")


@pytest.mark.parametrize("number", [3, 4])
def test_a_coroutine_that_ends_its_event_loop_ends_the_worker_which_comes_back(
    server: infer.Server, number: int
) -> None:
    assert "Stub process 'moody_0_0' is not healthy." in str(refusal(server, "moody", number))
    deadline = time.monotonic() + LIMIT_S
    while not server.is_model_ready("moody"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert ask(server, "moody", 7) == [7]


def test_a_server_stops_in_time_while_coroutines_wait(tmp_path: Path) -> None:
    folder = tmp_path / "waits" / "1"
    folder.mkdir(parents=True)
    (folder.parent / "config.pbtxt").write_text(CONFIG.format(rows=0, count=1, more=DECOUPLED))
    source = COROUTINE.replace("return [", "[") + "    async def one(self, each):\n        await asyncio.sleep(1000)\n"
    (folder / "model.py").write_text(HEADER + source)
    before = time.monotonic()
    with infer.Server(tmp_path) as server:
        answers = server.stream("waits", {"IN": ints(1)})
        server.stop(timeout_s=0.1)
    with pytest.raises(InferError):
        next(answers)
    assert time.monotonic() - before < LIMIT_S


# -- calls from coroutines ----------------------------------------------------------------------------------------

coroutine(
    "gathers",
    """
many = [request("double", [n]).async_exec() for n in range(tensor(each)[0])]
return out([value(response)[0] for response in await asyncio.gather(*many)])
""",
)
plain(
    "repeat",
    """
sender = each.get_response_sender()
for n in range(tensor(each)[0]):
    sender.send(out([n]))
sender.send(flags=1)
""",
    more=DECOUPLED,
)
MODELS["repeat"] = (MODELS["repeat"][0].replace("return [", "["), MODELS["repeat"][1])
coroutine(
    "sums",
    """
responses = await request("repeat", [20]).async_exec(decoupled=True)
total = 0
if tensor(each)[0] == 0:
    for response in responses:
        total += int(value(response)[0]) if response.output_tensors() else 0
else:
    async for response in responses:
        total += int(value(response)[0]) if response.output_tensors() else 0
again = [response async for response in responses]
return out([total, len(again), len(list(responses))])
""",
)
plain("sums_in_threads", "return out([sum(int(value(r)[0]) for r in request('repeat', [20]).exec(decoupled=True) "
      "if r.output_tensors())])\n", count=2)  # fmt: skip
plain(
    "patient",
    """
while not each.is_cancelled():
    time.sleep(0.001)
return out([1], error=pb_utils.TritonError("stopped", pb_utils.TritonError.CANCELLED))
""",
)
coroutine(
    "impatient",
    """
call = request("patient", [1]).async_exec()
try:
    await asyncio.wait_for(call, 0.05)
except asyncio.TimeoutError:
    return out([1])
return out([0])
""",
)


def test_a_hundred_calls_are_under_way_at_once_without_a_thread_each(server: infer.Server) -> None:
    assert ask(server, "gathers", 100) == [2 * n for n in range(100)]


def test_many_wrappers_iterate_decoupled_calls_at_once(server: infer.Server) -> None:
    """CASE-28 (python_backend#325, python_backend#439)."""
    before = time.monotonic()
    assert ask_all(server, "sums", [[n % 2] for n in range(32)]) == [[190, 21, 21]] * 32
    assert ask_all(server, "sums_in_threads", [[1]] * 32) == [[190]] * 32
    assert time.monotonic() - before < 20


def test_a_call_whose_future_is_cancelled_is_cancelled(server: infer.Server) -> None:
    before = server.statistics("patient")[0].failures["CANCELED"]
    assert ask(server, "impatient", 1) == [1]
    deadline = time.monotonic() + LIMIT_S
    while server.statistics("patient")[0].failures["CANCELED"] == before:
        assert time.monotonic() < deadline
        time.sleep(0.005)


# -- calls from everywhere ----------------------------------------------------------------------------------------

model(
    "early",
    """
class TritonPythonModel:
    def initialize(self, args):
        self.loaded, self.executing, self.answers = threading.Event(), threading.Event(), []
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()
    def work(self):
        for moment in (self.loaded, self.executing):
            moment.wait()
            self.answers.extend(value(request("double", [21]).exec()))
    def execute(self, requests):
        if tensor(requests[0])[0] == 0:
            threading.Timer(0.02, self.loaded.set).start()
            return [out([0])]
        self.executing.set()
        self.thread.join()
        return [out(self.answers)]
""",
)
plain(
    "batchlen",
    "return out(np.full((len(tensor(each)), 1), self.rows))\n",
    rows=8,
    more="dynamic_batching { max_queue_delay_microseconds: 200000 }",
)
MODELS["batchlen"] = (
    MODELS["batchlen"][0].replace("        return [", "        self.rows = len(requests)\n        return [", 1),
    MODELS["batchlen"][1],
)
coroutine(
    "four",
    """
shapes = [1, 1, 1, 1] if tensor(each)[0] == 0 else [1, 2, 3, 4]
calls = [request("batchlen", np.zeros((1, shape))).async_exec() for shape in shapes]
return out([value(response)[0, 0] for response in await asyncio.gather(*calls)])
""",
)
model(
    "accum",
    """
class TritonPythonModel:
    sums = {}
    def execute(self, requests):
        return [out([self.one(each), len(self.sums)]) for each in requests]
    def one(self, each):
        who = each.correlation_id()
        if each.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
            self.sums[who] = 0
        self.sums[who] += int(tensor(each)[0])
        total = self.sums[who]
        if each.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END:
            del self.sums[who]
        return total
""",
)
plain(
    "sequence",
    """
who = int(tensor(each)[0]) or "a name"
steps = [request("accum", [n], correlation_id=who, flags=f).exec() for n, f in ((1, 1), (2, 0), (3, 2))]
return out(np.concatenate([value(step) for step in steps]))
""",
    count=2,
)
plain(
    "timed",
    "time.sleep(0.3); return out(tensor(each))\n",
    rows=1,
    more="dynamic_batching { default_queue_policy { allow_timeout_override: true "
    "timeout_action: REJECT default_timeout_microseconds: 9000000 } }",
)
coroutine(
    "hurried",
    """
first = request("timed", [[1]]).async_exec()
await asyncio.sleep(0.05)
second = await request("timed", [[1]], timeout=20000).async_exec()
await first
return out([value(second)[0]])
""",
)


plain("timed_call", "return out(value(request('timed', [[1]], timeout=int(tensor(each)[0])).exec())[0])\n")


def test_a_thread_started_in_initialize_calls_another_model_with_and_without_an_execution(
    server: infer.Server,
) -> None:
    """CASE-25 (server#5815)."""
    before = server.statistics("double")[0].success.count
    assert ask(server, "early", 0) == [0]
    deadline = time.monotonic() + LIMIT_S
    while server.statistics("double")[0].success.count == before:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert ask(server, "early", 1) == [42, 42]


def test_calls_of_equal_shape_are_batched_and_others_succeed_one_by_one_for_a_reason_that_is_told(
    server: infer.Server,
) -> None:
    """CASE-22 (server#7774). The last of the four shapes is alone by then, and waits for the delay."""
    assert ask(server, "four", 0) == [4, 4, 4, 4]
    equal = server.statistics("batchlen")[0].batch_limits
    assert {limit: count for limit, count in equal.items() if count} == {"delay over": 1}
    assert ask(server, "four", 1) == [1, 1, 1, 1]
    both = server.statistics("batchlen")[0].batch_limits
    assert {limit: count for limit, count in both.items() if count} == {"delay over": 2, "shape differs": 3}
    assert server.statistics("four")[0].batch_limits == {}


def test_sequence_flags_and_ids_of_a_call_reach_the_callee(server: infer.Server) -> None:
    """CASE-27 (server#3770)."""
    for who in (7, 0):
        assert ask(server, "sequence", who) == [1, 1, 3, 1, 6, 0]


def test_two_sequences_of_two_callers_do_not_mix(server: infer.Server) -> None:
    for answer in ask_all(server, "sequence", [[8], [9]]):
        assert answer[::2] == [1, 3, 6]


def test_a_call_that_waits_longer_than_its_timeout_fails_with_these_words(server: infer.Server) -> None:
    assert "UNAVAILABLE Request timeout expired" in str(refusal(server, "hurried", 1))


def test_a_timeout_of_a_few_microseconds_is_over_before_an_idle_instance_begins(server: infer.Server) -> None:
    assert ask(server, "timed_call", 8_000_000) == [1]
    assert "UNAVAILABLE Request timeout expired" in str(refusal(server, "timed_call", 5))


# -- calls that would wait for themselves -------------------------------------------------------------------------

COUNTDOWN = (
    "n = int(tensor(each)[0])\nreturn out([n]) if n == 0 else out(value(request({name!r}, [n - 1]).exec()) + n)\n"
)
plain("countdown", COUNTDOWN.format(name="countdown"))
plain("countdown_twice", COUNTDOWN.format(name="countdown_twice"), count=2)
plain("ping", COUNTDOWN.format(name="pong"))
plain("pong", COUNTDOWN.format(name="ping"))
coroutine("countdown_awaited", COUNTDOWN.format(name="countdown_awaited").replace("value(", "value(await ")
          .replace(".exec", ".async_exec"))  # fmt: skip
coroutine("countdown_in_the_loop", COUNTDOWN.format(name="countdown_in_the_loop"))
plain(
    "countdown_run",
    """
async def work(n):
    return value(await request("countdown_run", [n - 1]).async_exec()) + n
n = int(tensor(each)[0])
return out([n]) if n == 0 else out(asyncio.run(work(n)))
""",
)
plain(
    "countdown_pool",
    """
n = int(tensor(each)[0])
if n == 0:
    return out([n])
with ThreadPoolExecutor(1) as pool:
    return out(pool.submit(lambda: value(request("countdown_pool", [n - 1]).exec())).result() + n)
""",
)
model(
    "countdown_fork",
    """
import multiprocessing
def work(n):
    return value(request("countdown_fork", [n - 1]).exec())
"""
    + PLAIN
    + """
    def one(self, each):
        n = int(tensor(each)[0])
        if n == 0:
            return out([n])
        with multiprocessing.get_context("fork").Pool(1) as pool:
            return out(pool.apply(work, [n]) + n)
""",
)
model(
    "beside",
    """
class TritonPythonModel:
    answers = []
    def execute(self, requests):
        n = int(tensor(requests[0])[0])
        if n == 1:
            self.thread = threading.Thread(target=lambda: self.answers.append(request("beside", [0]).exec()))
            self.thread.start()
            time.sleep(2.5)
        elif n == 2:
            self.thread.join()
            return [out(value(self.answers[0]))]
        return [out([n])]
""",
)


def test_a_call_that_turns_out_to_wait_for_itself_fails_and_names_the_circle(server: infer.Server) -> None:
    """CASE-24 (server#6236): within two seconds, in whatever way the model calls itself."""

    def timed_refusal(name: str) -> tuple[InferError, float]:
        before = time.monotonic()
        return refusal(server, name, 2), time.monotonic() - before

    names = [f"countdown_{way}" for way in ("in_the_loop", "run", "pool", "fork")]
    with ThreadPoolExecutor(len(names)) as pool:
        refusals = dict(zip(names, pool.map(timed_refusal, names), strict=True))
    for name, (error, seconds) in refusals.items():
        # A busy machine is late once, a server that looks too seldom is late again.
        assert min(seconds, timed_refusal(name)[1] if seconds >= 2 else seconds) < 2, name
        assert error.code is Code.INTERNAL
        assert "UNAVAILABLE" in str(error)
        assert f"would wait for itself: {name}_0_0 → {name}_0_0" in str(error)
        assert ask(server, name, 0) == [0]


def test_a_circle_of_certain_waits_is_found_at_once(server: infer.Server) -> None:
    """CASE-24 (server#6236)."""
    for name, chain in (("countdown", "countdown_0_0 → countdown_0_0"), ("ping", "pong_0_0 → ping_0_0 → pong_0_0")):
        before = time.monotonic()
        assert f"would wait for itself: {chain}; " in str(refusal(server, name, 2))
        assert time.monotonic() - before < wait_watch.DOUBT_S
        assert ask(server, name, 0) == [0]


def test_a_call_to_itself_runs_where_another_instance_is_free_or_executions_overlap(server: infer.Server) -> None:
    assert ask(server, "countdown_twice", 1) == [1]
    assert ask(server, "ping", 1) == [1]
    assert ask(server, "countdown_awaited", 10) == [55]


def test_two_chains_that_close_a_circle_both_end(server: infer.Server) -> None:
    def outcome(name: str) -> str:
        try:
            return str(ask(server, name, 1))
        except InferError as exc:
            return str(exc)

    for _ in range(20):
        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(outcome, ("ping", "pong")))
        assert all(each == "[1]" or "would wait for itself" in each for each in outcomes), outcomes
        assert "[1]" in outcomes


def test_a_call_that_only_waits_long_is_left_alone(server: infer.Server) -> None:
    assert ask(server, "beside", 1) == [1]
    assert ask(server, "beside", 2) == [0]
