"""Cases from the trackers of others in which decoupled models went wrong: final flags, races, leaks, wrong routes."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
import psutil
import pytest
from tritonclient.grpc import service_pb2

from infer.tests.contract.conftest import address, numbers

if TYPE_CHECKING:
    from pathlib import Path

    Server = Any

HEADER = """
import threading
import numpy as np
import triton_python_backend_utils as pb_utils
FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL

def out(*values):
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array(values, np.int32))])

def asked(request):
    return int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])
"""
MODELS = {
    "count": """
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender, last = request.get_response_sender(), asked(request) - 1
            for number in range(last + 1):
                sender.send(out(number), FINAL if number == last else 0)
            if last < 0:
                sender.send(flags=FINAL)
""",
    "lists": """
class TritonPythonModel:
    def execute(self, requests):
        if asked(requests[0]):
            return [out(1) for request in requests]
        for request in requests:
            request.get_response_sender().send(out(0), FINAL)
""",
    "threads": """
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=self.answer, args=(request.get_response_sender(),)).start()

    def answer(self, sender):
        threads = [threading.Thread(target=self.send, args=(sender, thread)) for thread in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sender.send(flags=FINAL)

    def send(self, sender, thread):
        for number in range(100):
            sender.send(out(thread, number))
""",
    "forgets": """
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            if asked(request):
                sender.send(out(1))
            else:
                sender.send(out(0), FINAL)
""",
    "fails": """
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            sender.send(out(1))
            sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("half way")))
            sender.send(out(2))
            sender.send(flags=FINAL)
""",
}
CONFIG = """
backend: "python"
model_transaction_policy { decoupled: true }
input [ { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: [ -1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
FLAG = "triton_final_response"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, start_module_server: Any) -> Server:
    repository: Path = tmp_path_factory.mktemp("models")
    for name, source in MODELS.items():
        (repository / name / "1").mkdir(parents=True)
        (repository / name / "config.pbtxt").write_text(CONFIG)
        (repository / name / "1" / "model.py").write_text(HEADER + source)
    return start_module_server(f"--model-repository={repository}")


@pytest.fixture
def stream(server: Server, read_from: Any) -> Any:
    """One stream."""
    return read_from(server)


def seen(messages: Any) -> list[tuple[list[int] | str | None, bool]]:
    """Of each message: its numbers, its error, or None; and whether it says that it is the last one."""
    found: list[tuple[list[int] | str | None, bool]] = []
    for message in messages:
        response = message.infer_response
        content = message.error_message or (numbers(message) if response.raw_output_contents else None)
        found.append((content, response.parameters[FLAG].bool_param))
    return found


@pytest.mark.parametrize("opted_in", [False, True])
def test_a_final_flag_that_comes_with_data_is_marked_there_and_no_empty_response_follows(
    stream: Any, opted_in: bool
) -> None:
    """CASE-13."""
    stream.ask("count", IN=[3], empty_final=opted_in)
    assert seen(stream.rest()) == [([0], False), ([1], False), ([2], True)]


@pytest.mark.parametrize("opted_in", [False, True])
def test_an_answer_without_responses_is_seen_by_those_who_ask_for_it(stream: Any, opted_in: bool) -> None:
    stream.ask("count", IN=[0], empty_final=opted_in)
    assert seen(stream.rest()) == ([(None, True)] if opted_in else [])


def test_a_decoupled_model_that_returns_a_list_is_told_to_return_nothing_and_goes_on(stream: Any) -> None:
    """CASE-15."""
    stream.ask("lists", IN=[1])
    stream.ask("lists", IN=[0])
    (error, final), (answer, _) = seen(stream.rest())
    assert isinstance(error, str)
    assert "'lists_0_0' is using the decoupled mode and the execute function must return None" in error
    assert (final, answer) == (True, [0])


def test_a_decoupled_model_is_refused_at_once_where_there_is_one_answer_and_the_way_is_named(server: Server) -> None:
    """CASE-16."""
    body = {"inputs": [{"name": "IN", "shape": [1], "datatype": "INT32", "data": [3]}]}
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{server.http}/v2/models/count/infer", json.dumps(body).encode(), timeout=10)
    sentence = json.loads(refused.value.read())["error"]
    assert refused.value.code == 501
    request = service_pb2.ModelInferRequest(model_name="count")
    request.inputs.add(name="IN", datatype="INT32", shape=[1])
    request.raw_input_contents.append(np.array([3], np.int32).tobytes())
    with grpc.insecure_channel(address(server)) as channel, pytest.raises(grpc.RpcError) as aborted:
        channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")(request.SerializeToString(), timeout=10)
    assert aborted.value.code() is grpc.StatusCode.UNIMPLEMENTED
    for said in (sentence, aborted.value.details()):
        assert "doesn't support models with decoupled transaction policy" in said
        assert "ModelStreamInfer" in said


def test_eight_threads_send_for_one_request_each_in_its_order_and_the_final_flag_is_last(stream: Any) -> None:
    """CASE-18."""
    stream.ask("threads", IN=[1], empty_final=True)
    *found, last = seen(stream.rest())
    assert last == (None, True)
    pairs = [content for content, _ in found]
    assert len(pairs) == 800
    for thread in range(8):
        assert [number for sender, number in pairs if sender == thread] == list(range(100))


@pytest.mark.slow
def test_responses_by_the_ten_thousand_leave_nothing_in_the_worker(server: Server, read_from: Any) -> None:
    """CASE-19."""
    (pid,) = [each.pid for each in server.processes() if each.name().startswith("infer:count")]
    sizes: list[int] = []
    for _ in range(5):
        stream = read_from(server)
        stream.ask("count", IN=[10_000])
        assert sum(1 for _ in stream.rest()) == 10_000
        sizes.append(psutil.Process(pid).memory_info().rss)
    assert sizes[-1] - sizes[0] < 10 << 20


def test_a_sender_that_is_let_go_without_its_final_flag_ends_the_request_with_an_error(stream: Any) -> None:
    stream.ask("forgets", IN=[1])
    stream.ask("forgets", IN=[0])
    found = seen(stream.rest())
    assert ([0], True) in found
    assert [each for each in found if each[0] != [0]] == [
        ([1], False),
        ("the model let go of the request without sending its final response", True),
    ]


def test_a_plain_stream_goes_on_behind_an_error(stream: Any) -> None:
    stream.ask("fails", IN=[1])
    assert seen(stream.rest()) == [([1], False), ("half way", False), ([2], False)]


def test_a_stream_that_wants_statuses_ends_with_the_first_error_and_the_late_final_flag_harms_nobody(
    server: Server, read_from: Any
) -> None:
    stream = read_from(server)
    stream.ask("count", IN=[1])
    assert stream.next() == [0]
    request = service_pb2.ModelInferRequest(model_name="fails")
    request.inputs.add(name="IN", datatype="INT32", shape=[1])
    request.raw_input_contents.append(np.array([3], np.int32).tobytes())
    with grpc.insecure_channel(address(server)) as channel:
        call = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
        responses = call(iter([request.SerializeToString()]), timeout=30, metadata=[("triton_grpc_error", "true")])
        with pytest.raises(grpc.RpcError) as ended:
            list(responses)
    assert (ended.value.code(), ended.value.details()) == (grpc.StatusCode.INTERNAL, "half way")
    stream.ask("fails", IN=[1])
    assert len(list(stream.rest())) == 3


def test_each_response_is_counted_by_its_number(server: Server, stream: Any) -> None:
    def counted() -> dict[str, Any]:
        with urllib.request.urlopen(f"{server.http}/v2/models/fails/stats", timeout=10) as reply:
            return json.loads(reply.read())["model_stats"][0]

    before = counted()
    stream.ask("fails", IN=[1])
    assert len(list(stream.rest())) == 3
    after = counted()
    assert after["execution_count"] - before["execution_count"] == 1
    for number, outcome in (("0", "success"), ("1", "fail"), ("2", "success")):
        was = before["response_stats"].get(number, {outcome: {"count": 0}})[outcome]["count"]
        assert after["response_stats"][number][outcome]["count"] == was + 1
    # The final flag alone is no response.
    assert after["response_stats"].get("3") == before["response_stats"].get("3")
