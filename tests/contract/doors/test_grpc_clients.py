"""The unmodified Triton gRPC clients, sync and asyncio, unary and in streams, against a whole server."""

from __future__ import annotations

import asyncio
import contextlib
import queue
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as sync
from tritonclient.grpc import aio
from tritonclient.utils import InferenceServerException

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from pathlib import Path

    from infer.app.wiring import RunningServer

LEFT = np.arange(16, dtype=np.int32).reshape(1, 16)
RIGHT = np.ones((1, 16), dtype=np.int32)
WAIT_S = 20


@pytest.fixture
def client(grpc_url: str) -> Iterator[Any]:
    with sync.InferenceServerClient(grpc_url) as client:
        yield client


@pytest.fixture
def on_loop(server: RunningServer) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine on the server's loop: grpc's asyncio half serves one loop of a process well."""
    return server.serving_loop.run


def simple(module: Any = sync) -> list[Any]:
    inputs = [module.InferInput(name, [1, 16], "INT32") for name in ("INPUT0", "INPUT1")]
    inputs[0].set_data_from_numpy(LEFT)
    inputs[1].set_data_from_numpy(RIGHT)
    return inputs


def number(value: float, module: Any = sync) -> list[Any]:
    given = module.InferInput("INPUT0", [1], "FP32")
    given.set_data_from_numpy(np.array([value], dtype=np.float32))
    return [given]


class Stream:
    """What the callback of a stream gets, in its order."""

    def __init__(self, client: Any, **options: Any) -> None:
        self.client = client
        self.got: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
        client.start_stream(lambda result, error: self.got.put((result, error)), **options)

    def take(self) -> tuple[Any, Any]:
        return self.got.get(timeout=WAIT_S)

    def rest(self) -> list[tuple[Any, Any]]:
        self.client.stop_stream()
        made: list[tuple[Any, Any]] = []
        with contextlib.suppress(queue.Empty):
            while True:
                made.append(self.got.get_nowait())
        return made


def final(result: Any) -> bool:
    return result.get_response().parameters["triton_final_response"].bool_param


def is_over(server: RunningServer, name: str) -> None:
    """Wait until no request to a model is pending or executing."""

    async def wait() -> None:
        await server.engine.find(name).scheduler.wait_idle()

    server.serving_loop.run(wait())


# Unary


def test_many_requests_at_once(client: Any) -> None:
    got: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for index in range(50):
        client.async_infer("simple", simple(), lambda result, error: got.put((result, error)), request_id=str(index))
    made = [got.get(timeout=WAIT_S) for _ in range(50)]
    assert all(error is None for _, error in made)
    assert {result.get_response().id for result, _ in made} == {str(index) for index in range(50)}


def test_an_answer_says_nothing_of_streams(client: Any) -> None:
    assert dict(client.infer("simple", simple()).get_response().parameters) == {}


def test_200_mebibytes_pass_both_ways(client: Any) -> None:
    array = np.zeros(200 << 20, dtype=np.uint8)
    array[-1] = 7
    given = sync.InferInput("INPUT0", [array.size], "UINT8")
    given.set_data_from_numpy(array)
    answer = client.infer("ident_UINT8", [given]).as_numpy("OUTPUT0")
    assert (answer.size, answer[-1]) == (array.size, 7)


def test_a_deadline_cancels_the_request_in_the_model(client: Any, server: RunningServer, repository: Path) -> None:
    seen = repository / "cancelled"
    seen.unlink(missing_ok=True)
    with pytest.raises(InferenceServerException, match="Deadline Exceeded"):
        client.infer("slow", number(20), client_timeout=0.2)
    is_over(server, "slow")
    _wait(server, seen.exists)
    assert client.is_model_ready("slow")


def test_a_cancelled_call_is_cancelled_before_during_and_after(
    client: Any, server: RunningServer, repository: Path
) -> None:
    started, seen = repository / "started", repository / "cancelled"
    for path in (started, seen):
        path.unlink(missing_ok=True)
    got: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def call(seconds: float) -> Any:
        return client.async_infer("slow", number(seconds), lambda result, error: got.put((result, error)))

    during = call(20)
    _wait(server, started.exists)
    waiting = call(20)
    waiting.cancel()
    during.cancel()
    for _ in range(2):
        result, error = got.get(timeout=WAIT_S)
        assert (result, error.status()) == (None, "StatusCode.CANCELLED")
    is_over(server, "slow")
    _wait(server, seen.exists)
    after = call(0)
    assert got.get(timeout=WAIT_S)[1] is None
    after.cancel()
    assert client.infer("slow", number(0)).as_numpy("OUTPUT0") == [0]


def test_a_thousand_cancelled_calls_leave_nothing(on_loop: Any, server: RunningServer, grpc_url: str) -> None:
    async def run() -> None:
        async with aio.InferenceServerClient(grpc_url) as client:
            for _ in range(10):
                tasks = [asyncio.ensure_future(client.infer("slow", number(20, aio))) for _ in range(100)]
                await asyncio.sleep(0)
                for task in tasks:
                    task.cancel()
                made = await asyncio.gather(*tasks, return_exceptions=True)
                assert all(isinstance(error, asyncio.CancelledError) for error in made)

    on_loop(run())
    is_over(server, "slow")
    assert all(snapshot.pending == 0 for snapshot in server.engine.statistics())


def test_the_asyncio_client_does_it_all_too(on_loop: Any, grpc_url: str) -> None:
    async def run() -> None:
        async with aio.InferenceServerClient(grpc_url) as client:
            assert await client.is_server_live()
            assert await client.is_server_ready()
            assert await client.is_model_ready("simple")
            assert not await client.is_model_ready("nope")
            assert (await client.get_model_config("simple")).config.name == "simple"
            assert (await client.get_inference_statistics("simple")).model_stats
            assert (await client.get_model_repository_index()).models
            result = await client.infer("simple", simple(aio), request_id="7")
            np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), LEFT + RIGHT)
            with pytest.raises(InferenceServerException, match="Request for unknown model: 'nope' is not found"):
                await client.infer("nope", simple(aio))

    on_loop(run())


# Streams


def test_a_stream_answers_ordinary_requests_in_their_order(client: Any) -> None:
    stream = Stream(client)
    client.async_stream_infer("slow", number(0.2), request_id="slow")
    for index in range(20):
        client.async_stream_infer("simple", simple(), request_id=str(index))
    made = stream.rest()
    assert [result.get_response().id for result, _ in made] == ["slow", *[str(index) for index in range(20)]]
    assert all(final(result) for result, _ in made)


def test_a_decoupled_model_answers_as_often_as_it_likes(client: Any) -> None:
    stream = Stream(client)
    client.async_stream_infer("repeat", number(500), request_id="a", enable_empty_final_response=True)
    client.async_stream_infer("repeat", number(3), request_id="b")
    client.async_stream_infer("repeat", number(0), request_id="c", enable_empty_final_response=True)
    client.async_stream_infer("repeat", number(0), request_id="d")
    by_id: dict[str, list[Any]] = {}
    for result, error in stream.rest():
        assert error is None
        by_id.setdefault(result.get_response().id, []).append(result)
    assert {key: len(results) for key, results in by_id.items()} == {"a": 501, "b": 3, "c": 1}
    assert [result.as_numpy("OUTPUT0")[0] for result in by_id["a"][:-1]] == list(range(500))
    assert [final(result) for result in by_id["a"]] == [False] * 500 + [True]
    last = by_id["c"][0].get_response()
    assert (last.model_name, len(last.outputs), final(by_id["c"][0])) == ("repeat", 0, True)


def test_a_stream_goes_on_behind_an_error(client: Any) -> None:
    stream = Stream(client)
    client.async_stream_infer("nope", simple(), request_id="a")
    client.async_stream_infer("simple", simple()[:1], request_id="b")
    client.async_stream_infer("repeat", simple(), request_id="c")
    client.async_stream_infer("repeat", number(-2), request_id="d")
    client.async_stream_infer("simple", simple(), request_id="e")
    made = stream.rest()
    errors = sorted(str(error.message()) for _, error in made if error is not None)
    assert [error[:40] for error in errors] == [
        "Request for unknown model: 'nope' is not",
        "[request id: b] expected 2 inputs but go",
        "[request id: c] expected 1 inputs but go",
        "enough",
    ]
    ids = [result.get_response().id for result, error in made if error is None]
    assert sorted(ids) == ["d", "d", "e"]


def test_the_first_failure_ends_a_stream_that_asked_for_it(client: Any) -> None:
    stream = Stream(client, headers={"triton_grpc_error": "true"})
    client.async_stream_infer("parameters", number(-3), request_id="a")
    result, error = stream.take()
    assert (result, error.status(), error.message()) == (None, "StatusCode.INVALID_ARGUMENT", "below nothing")
    client.stop_stream()


def test_stopping_a_stream_with_a_cancel_cancels_its_requests(
    client: Any, server: RunningServer, repository: Path
) -> None:
    more = repository / "no more"
    more.unlink(missing_ok=True)
    stream = Stream(client)
    client.async_stream_infer("repeat", number(10_000_000), request_id="a")
    assert stream.take()[1] is None
    client.stop_stream(cancel_requests=True)
    is_over(server, "repeat")
    _wait(server, more.exists)
    errors = [error for _, error in stream.rest() if error is not None]
    assert [error.message() for error in errors] == ["Locally cancelled by application!"]


def test_a_streams_deadline_ends_it(client: Any, server: RunningServer) -> None:
    stream = Stream(client, stream_timeout=0.3)
    client.async_stream_infer("slow", number(20))
    _, error = stream.take()
    assert "Deadline Exceeded" in error.message()
    client.stop_stream()
    is_over(server, "slow")


def test_two_streams_do_not_wait_for_each_other(grpc_url: str, client: Any) -> None:
    with sync.InferenceServerClient(grpc_url) as other:
        slow, quick = Stream(client), Stream(other)
        client.async_stream_infer("slow", number(0.5), request_id="slow")
        for _ in range(20):
            other.async_stream_infer("simple", simple())
        assert all(error is None for _, error in quick.rest())
        assert slow.got.empty()
        assert len(slow.rest()) == 1


def test_a_stalled_reader_blocks_nobody(on_loop: Any, grpc_url: str, client: Any, server: RunningServer) -> None:
    """A client that takes nothing of a long answer; another one's requests go on."""
    channel = grpc.insecure_channel(grpc_url, [("grpc.http2.lookahead_bytes", 1024)])
    stalled = sync.service_pb2_grpc.GRPCInferenceServiceStub(channel)
    made = sync.service_pb2.ModelInferRequest(model_name="repeat", raw_input_contents=[np.float32(20_000).tobytes()])
    made.inputs.add(name="INPUT0", datatype="FP32", shape=[1])
    call = stalled.ModelStreamInfer(iter([made]))
    next(call)
    for _ in range(20):
        np.testing.assert_array_equal(client.infer("simple", simple()).as_numpy("OUTPUT0"), LEFT + RIGHT)
    call.cancel()
    channel.close()
    is_over(server, "repeat")


def test_the_asyncio_client_streams_too(on_loop: Any, grpc_url: str) -> None:
    async def requests() -> AsyncIterator[dict[str, Any]]:
        for index in range(3):
            yield {"model_name": "simple", "inputs": simple(aio), "request_id": str(index)}
        yield {"model_name": "repeat", "inputs": number(2, aio), "request_id": "r"}

    async def run() -> list[Any]:
        async with aio.InferenceServerClient(grpc_url) as client:
            return [pair async for pair in client.stream_infer(requests())]

    made = on_loop(run())
    assert all(error is None for _, error in made)
    assert [result.get_response().id for result, _ in made if result.get_response().id != "r"] == ["0", "1", "2"]
    assert len(made) == 5


def test_cancelling_an_asyncio_stream_cancels_its_requests(on_loop: Any, grpc_url: str, server: RunningServer) -> None:
    async def requests() -> AsyncIterator[dict[str, Any]]:
        yield {"model_name": "repeat", "inputs": number(10_000_000, aio)}

    async def run() -> None:
        async with aio.InferenceServerClient(grpc_url) as client:
            stream = client.stream_infer(requests())
            async for _, error in stream:
                assert error is None
                break
            stream.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                async for _ in stream:
                    pass

    on_loop(run())
    is_over(server, "repeat")


def _wait(server: RunningServer, condition: Callable[[], bool]) -> None:
    """Let the server's loop turn until the condition holds; fails after ten seconds."""

    async def wait() -> None:
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110  what a client or a model does sets no event
                await asyncio.sleep(0.002)

    server.serving_loop.run(wait())
