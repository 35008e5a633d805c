"""What models do without meaning to: ends in unusual ways, forks that come back, iterators that several share."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import infer
from infer.backends.api.errors import Code, InferError, InstanceDied
from infer.backends.api.response import InferenceResponse
from infer.backends.api.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from infer.backends.api.request import InferenceRequest

    Rig = Any

IN_BOTH_MODES = True


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int32)


def value(response: InferenceResponse) -> list[int]:
    return response.outputs["OUT"].as_numpy().tolist()


# -- forks that come back -----------------------------------------------------------------------------------------

FORK = """
class TritonPythonModel:
    def execute(self, requests):
        pid = os.fork()
        if pid == 0:
            END
        status = os.waitpid(pid, 0)[1]
        return [Response([T("OUT", np.array([os.WEXITSTATUS(status), os.getpid()], np.int32))])]
"""


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("return [Response([T('OUT', np.array([9, 9], np.int32))])]", 0),
        ("raise ValueError('in the fork')", 1),
        ("sys.exit(3)", 3),
        ("sys.exit('bye')", 1),
        ("raise KeyboardInterrupt", 1),
    ],
    ids=["returns", "raises", "exits", "exits with words", "is interrupted"],
)
async def test_a_fork_that_leaves_execute_ends_and_never_answers_in_the_place_of_the_worker(
    rig: Rig, end: str, status: int
) -> None:
    instance = await rig.load("forker", FORK.replace("END", end))
    first, second = [value(await rig.infer(instance, IN=ints(1))) for _ in range(2)]
    assert first[0] == status
    assert first == second


async def test_a_fork_that_raises_says_so_in_the_log(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    if rig.mode == "thread":
        pytest.skip("what a fork of the server writes is the server's own output")
    instance = await rig.load("forker", FORK.replace("END", "raise ValueError('in the fork')"))
    await rig.infer(instance, IN=ints(1))
    await rig.infer(instance, IN=ints(1))
    assert "which the model has forked, ends with ValueError: in the fork" in caplog.text


@pytest.mark.own_process
async def test_a_fork_that_leaves_initialize_is_no_second_worker(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def initialize(self, args):
        self.pid = os.fork()
        if self.pid:
            os.waitpid(self.pid, 0)
    def execute(self, requests):
        return [Response([T("OUT", np.array([self.pid > 0], np.int32))])]
"""
    instance = await rig.load("forker", source)
    assert value(await rig.infer(instance, IN=ints(1))) == [1]


# -- ends ---------------------------------------------------------------------------------------------------------


async def test_a_request_whose_model_ends_its_worker_fails_with_that_as_the_reason(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        sys.exit(3)
"""
    instance = await rig.load("leaver", source)
    error = await rig.error(instance, IN=ints(1))
    assert isinstance(error, InstanceDied)
    assert "It ended with exit status 3." in error.message


async def test_a_cancelled_task_that_execute_has_waited_for_is_an_error_like_any_other(rig: Rig) -> None:
    source = """
import asyncio
async def give_up():
    asyncio.current_task().cancel()
    await asyncio.sleep(0)
class TritonPythonModel:
    def execute(self, requests):
        if by_name(requests[0], "IN").as_numpy()[0]:
            asyncio.run(give_up())
        return [Response([T("OUT", np.zeros(1, np.int32))])]
"""
    instance = await rig.load("waiter", source)
    assert "message: CancelledError" in (await rig.error(instance, IN=ints(1))).message
    assert value(await rig.infer(instance, IN=ints(0))) == [0]


# -- iterators that several share ---------------------------------------------------------------------------------

CALL = """
import asyncio
from concurrent.futures import ThreadPoolExecutor
def call(name):
    return pb_utils.InferenceRequest(model_name=name, inputs=[T("IN", np.zeros(1, np.int32))],
                                     requested_output_names=["OUT"])
class TritonPythonModel:
"""
THREADS = """
    def execute(self, requests):
        responses = call("many").exec(decoupled=True)
        with ThreadPoolExecutor(4) as pool:
            parts = list(pool.map(lambda _: [r for r in iter(lambda: next(responses, None), None)], range(4)))
        seen = sorted(int(r.output_tensors()[0].as_numpy()[0]) for part in parts for r in part if r.output_tensors())
        return [Response([T("OUT", np.array(seen, np.int32))])]
"""
COROUTINES = """
    async def execute(self, requests):
        responses = await call("many").async_exec(decoupled=True)
        async def part():
            seen = []
            while True:
                try:
                    seen.append(await responses.__anext__())
                except StopAsyncIteration:
                    return seen
                await asyncio.sleep(0)
        parts = await asyncio.gather(*[part() for _ in range(4)])
        seen = sorted(int(r.output_tensors()[0].as_numpy()[0]) for part in parts for r in part if r.output_tensors())
        return [Response([T("OUT", np.array(seen, np.int32))])]
"""


@pytest.mark.parametrize("source", [THREADS, COROUTINES], ids=["threads", "coroutines"])
async def test_several_that_share_an_iterator_get_each_response_once_and_all_come_to_its_end(
    rig: Rig, source: str
) -> None:
    def many(_: InferenceRequest, respond: Callable[[InferenceResponse], None]) -> None:
        def send(number: int) -> None:
            if number == 20:
                respond(InferenceResponse())
                return
            respond(InferenceResponse({"OUT": Tensor.from_numpy(ints(number))}, final=False))
            # Each in a turn of its own, so that all wait for it.
            rig.loop.call_later(0.001, send, number + 1)

        send(0)

    rig.caller.models["many"] = many
    instance = await rig.load("sharer", CALL + source)
    assert value(await rig.infer(instance, IN=ints(1))) == list(range(20))


# -- calls of the wrong kind --------------------------------------------------------------------------------------

CONFIG = """
backend: "python"
input [ { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: [ -1 ] } ]
instance_group [ { kind: KIND_CPU } ]
"""
REPEAT = """
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        sender = requests[0].get_response_sender()
        numbers = requests[0].inputs()[0].as_numpy()
        for _ in range(numbers[0]):
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", numbers)]))
        sender.send(flags=1)
"""
PLAIN_CALL = """
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        response = pb_utils.InferenceRequest(
            model_name="repeat", inputs=requests[0].inputs(), requested_output_names=["OUT"]).exec()
        return [pb_utils.InferenceResponse(response.output_tensors(), response.error())]
"""


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_plain_call_of_a_decoupled_model_is_refused_however_many_responses_it_would_send(
    tmp_path: Path, count: int
) -> None:
    for name, source, more in (
        ("repeat", REPEAT, "model_transaction_policy { decoupled: true }"),
        ("caller", PLAIN_CALL, ""),
    ):
        folder = tmp_path / name / "1"
        folder.mkdir(parents=True)
        (folder.parent / "config.pbtxt").write_text(CONFIG + more)
        (folder / "model.py").write_text(textwrap.dedent(source))
    with infer.Server(tmp_path) as server:
        with pytest.raises(
            InferError, match=r"Model repeat is using the decoupled\..*exec\(decoupled=True\)"
        ) as raised:
            server.infer("caller", {"IN": ints(count)}, timeout_s=20)
        assert raised.value.code is Code.INTERNAL
        assert server.statistics("repeat")[0].execution_count == 0
