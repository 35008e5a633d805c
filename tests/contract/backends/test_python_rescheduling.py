"""Requests that a model in a worker process wants again: what it is given then, and what it may do meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from infer.backends.api.errors import BackendFailure

if TYPE_CHECKING:
    from infer.backends.api.request import InferenceRequest

    Rig = Any

LIMIT_S = 20
AGAIN = "request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)"
ROUNDS = f"""
class TritonPythonModel:
    # Answers with the round it is, from the round on that the input says.
    def initialize(self, args):
        self.round = 0
    def execute(self, requests):
        self.round += 1
        responses = []
        for request in requests:
            if self.round < by_name(request, "IN").as_numpy()[0]:
                {AGAIN}
                responses.append(None)
            else:
                responses.append(Response([T("OUT", np.array([self.round], np.int32))]))
        return responses
"""
KEEPS_ITS_SENDER = f"""
class TritonPythonModel:
    # Sends with the sender of the first round only; between two rounds it tries to, and says what came of it.
    def initialize(self, args):
        self.sender, self.said = None, ""
        self.tried = os.path.join(args["model_repository"], "tried")
    def between(self):
        while not self.said:
            try:
                self.sender.send(Response([T("OUT", np.array([99], np.int32))]))
                time.sleep(0.001)
            except pb_utils.TritonModelException as exc:
                self.said = str(exc)
        open(self.tried, "w").close()
    def execute(self, requests):
        request = requests[0]
        if self.sender is None:
            self.sender = request.get_response_sender()
            {AGAIN}
            threading.Thread(target=self.between).start()
            return
        answer = Response([T("OUT", np.array([7], np.int32))], parameters={{"said": self.said}})
        self.sender.send(answer, pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
FLAGS = """
class TritonPythonModel:
    def execute(self, requests):
        own = pb_utils.InferenceRequest(inputs=[], requested_output_names=[], model_name="m")
        said = []
        for request, flags in ((requests[0], 3), (requests[0], 0), (requests[0], None), (own, 1)):
            try:
                request.set_release_flags(flags)
                said.append("nothing")
            except (TypeError, pb_utils.TritonModelException) as exc:
                said.append(f"{type(exc).__name__}: {exc}")
        requests[0].set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
        requests[0].set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_ALL)
        return [Response([], parameters={"said": json.dumps(said)})]
"""


async def once_more(rig: Rig, instance: Any, request: InferenceRequest) -> InferenceRequest:
    """Execute a request that comes back without a response; it as the scheduler sends it the next time."""
    (execution,), done = rig.execute(instance, request)
    await asyncio.wait_for(done, LIMIT_S)
    return replace(request, earlier=await asyncio.wait_for(execution.mark, LIMIT_S))


async def test_a_request_comes_back_with_the_same_inputs_until_it_is_answered(rig: Rig) -> None:
    instance = await rig.load("rounds", ROUNDS)
    request = rig.request(IN=np.array([4], np.int32))
    for _ in range(3):
        request = await once_more(rig, instance, request)
    assert instance._batches.open_count == 0
    (execution,), done = rig.execute(instance, request)
    await asyncio.wait_for(done, LIMIT_S)
    assert (await execution.end())[0].outputs["OUT"].as_numpy().tolist() == [4]


async def test_those_of_a_batch_that_are_answered_are_done_with(rig: Rig) -> None:
    instance = await rig.load("rounds", ROUNDS)
    requests = [rig.request(IN=np.array([value], np.int32)) for value in (0, 2)]
    executions, done = rig.execute(instance, *requests)
    await asyncio.wait_for(done, LIMIT_S)
    assert (await executions[0].end())[0].outputs["OUT"].as_numpy().tolist() == [1]
    assert (executions[0].mark.done(), executions[1].mark.done(), executions[1].responses) == (False, True, [])


async def test_a_sender_that_was_kept_sends_in_the_next_round_and_not_between_two(rig: Rig) -> None:
    instance = await rig.load("keeps", KEEPS_ITS_SENDER, model_transaction_policy={"decoupled": True})
    request = await once_more(rig, instance, rig.request(IN=np.array([0], np.int32)))
    async with asyncio.timeout(LIMIT_S):
        # Until the thread has tried, the request stays between its two rounds.
        while not any(rig.folder.rglob("tried")):  # noqa: ASYNC110  another process says so with a file
            await asyncio.sleep(0.002)
    (execution,), done = rig.execute(instance, request)
    await asyncio.wait_for(done, LIMIT_S)
    (response,) = await execution.end()
    assert response.outputs["OUT"].as_numpy().tolist() == [7]
    assert response.parameters["said"] == (
        "Unable to send response. The request is rescheduled; send in its next execution."
    )


async def test_release_flags_are_two_and_of_requests_that_were_received(rig: Rig) -> None:
    instance = await rig.load("flags", FLAGS)
    response = await rig.infer(instance, IN=np.array([0], np.int32))
    said = response.parameters["said"]
    for flags in (3, 0):
        assert f"TritonModelException: Unable to set release flags {flags}; use TRITONSERVER_REQUEST_RELEASE_" in said
    assert "TypeError: set_release_flags" in said
    assert "TritonModelException: set_release_flags is for requests received in execute" in said


async def test_an_exception_in_a_round_ends_the_request(rig: Rig) -> None:
    source = f"""
    class TritonPythonModel:
        def execute(self, requests):
            for request in requests:
                {AGAIN}
            raise ValueError("no luck")
    """
    instance = await rig.load("raises", source)
    error = await rig.error(instance, IN=np.array([0], np.int32))
    assert isinstance(error, BackendFailure)
    assert "ValueError: no luck" in str(error)


async def test_a_request_that_comes_often_leaves_nothing_behind(rig: Rig) -> None:
    instance = await rig.load("rounds", ROUNDS)
    request = rig.request(IN=np.full(100_000, 2**30, np.int32))

    async def rounds(count: int) -> tuple[int, int]:
        nonlocal request
        for _ in range(count):
            request = await once_more(rig, instance, request)
        worker = psutil.Process(instance.pid)
        return worker.memory_info().rss, worker.num_fds()

    before = await rounds(30)
    after = await rounds(150)
    # A slab whose release comes late has another one made beside it, which the pool keeps: not one a round.
    assert after[1] <= before[1] + 3
    # A single request that stayed would be 400 kB.
    assert after[0] - before[0] < 20 * request.inputs["IN"].byte_size
