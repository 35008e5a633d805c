"""A request that repeats its connection's last one is answered as any other, only sooner."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infer.backends.api.errors import BackendFailure
from infer.backends.api.response import InferenceResponse
from infer.backends.api.tensor import Tensor
from infer.server.http.repeat import Exchange

if TYPE_CHECKING:
    import socket

    from infer.backends.api.request import InferenceRequest


class Client:
    """A keep-alive connection that sends the same binary request with other tensors."""

    def __init__(self, door: Any, path: str = "/v2/models/simple/infer", **members: Any) -> None:
        self.socket: socket.socket = door.connect()
        self.stream = self.socket.makefile("rb")
        self.path = path
        described = [
            {"name": name, "datatype": "INT32", "shape": [1, 16], "parameters": {"binary_data_size": 64}}
            for name in ("INPUT0", "INPUT1")
        ]
        members.setdefault("parameters", {"binary_data_output": True})
        self.json = json.dumps({"inputs": described, **members}).encode()

    def bytes_of(self, left: int, right: int, extra: bytes = b"") -> bytes:
        tensors = np.full((2, 16), [[left], [right]], np.int32).tobytes() + extra
        size = len(self.json) + len(tensors)
        head = (
            f"POST {self.path} HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: {len(self.json)}\r\n"
            f"Content-Length: {size}\r\n\r\n"
        )
        return head.encode() + self.json + tensors

    def send(self, left: int, right: int, extra: bytes = b"") -> None:
        self.socket.sendall(self.bytes_of(left, right, extra))

    def receive(self) -> tuple[int, dict[str, Any], bytes]:
        """Status, JSON, and the tensors behind it."""
        status = int(self.stream.readline().split()[1])
        headers: dict[str, str] = {}
        while (line := self.stream.readline().strip()) != b"":
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        body = self.stream.read(int(headers["content-length"]))
        size = int(headers.get("inference-header-content-length", len(body)))
        return status, json.loads(body[:size]), body[size:]

    def ask(self, left: int, right: int) -> list[int]:
        """The first elements of the outputs."""
        self.send(left, right)
        status, _, tail = self.receive()
        assert status == 200
        return np.frombuffer(tail, np.int32).reshape(-1, 16)[:, 0].tolist()

    def close(self) -> None:
        self.stream.close()
        self.socket.close()


def formed(request: InferenceRequest, form: object = "sums", **parameters: Any) -> InferenceResponse:
    """Sum and difference, of a form that is known."""
    left, right = (request.inputs[name].as_numpy() for name in ("INPUT0", "INPUT1"))
    outputs = {"OUTPUT0": Tensor.from_numpy(left + right), "OUTPUT1": Tensor.from_numpy(left - right)}
    return InferenceResponse(outputs, dict(parameters), form=form)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The segments that were taken as repeated requests."""
    taken: list[bytes] = []
    original = Exchange.begin

    def begin(self: Exchange, data: bytes) -> None:
        taken.append(data)
        original(self, data)

    monkeypatch.setattr(Exchange, "begin", begin)
    return taken


@pytest.fixture
def client(door: Any) -> Any:
    door.engine.behaviours["simple"] = formed
    client = Client(door)
    client.ask(0, 0)
    yield client
    client.close()


def test_every_repetition_is_answered_for_its_own_tensors(client: Client, begun: list[bytes]) -> None:
    assert [client.ask(left, 1) for left in range(6)] == [[left + 1, left - 1] for left in range(6)]
    # The fixture's request is read, the next recognised as its like, and from then on it is expected.
    assert len(begun) == 5


def test_the_reply_is_the_same_byte_for_byte_as_on_the_ordinary_way(door: Any, client: Client) -> None:
    replies = []
    for _ in range(3):
        client.send(7, 2)
        replies.append(client.receive())
    fresh = Client(door)
    fresh.send(7, 2)
    assert all(reply == fresh.receive() if index == 0 else reply == replies[0] for index, reply in enumerate(replies))
    fresh.close()


def test_only_the_wanted_outputs_are_sent_in_the_order_of_the_model(door: Any, begun: list[bytes]) -> None:
    door.engine.behaviours["simple"] = formed
    wanted = [{"name": "OUTPUT1", "parameters": {"binary_data": True}}]
    client = Client(door, outputs=wanted, parameters={})
    assert [client.ask(left, 1) for left in range(4)] == [[left - 1] for left in range(4)]
    assert len(begun) == 2
    client.close()


def test_a_response_of_another_form_is_described_as_it_is(door: Any, client: Client) -> None:
    client.ask(1, 1)
    client.ask(1, 1)
    door.engine.behaviours["simple"] = lambda request: InferenceResponse(
        {"OUTPUT0": Tensor.from_numpy(np.zeros((1, 3), np.float32))}, form="other"
    )
    for _ in range(3):
        client.send(1, 1)
        _, head, tail = client.receive()
        assert head["outputs"] == [
            {"name": "OUTPUT0", "datatype": "FP32", "shape": [1, 3], "parameters": {"binary_data_size": 12}}
        ]
        assert len(tail) == 12


def test_a_response_without_a_form_or_with_parameters_is_written_each_time(door: Any, client: Client) -> None:
    client.ask(1, 1)
    client.ask(1, 1)
    door.engine.behaviours["simple"] = lambda request: formed(request, mine=3)
    client.send(1, 1)
    assert client.receive()[1]["parameters"] == {"mine": 3}
    door.engine.behaviours["simple"] = lambda request: formed(request, form=None)
    client.send(4, 1)
    assert np.frombuffer(client.receive()[2], np.int32)[0] == 5


def test_a_request_that_differs_takes_the_ordinary_way(client: Client, begun: list[bytes]) -> None:
    client.ask(1, 1)
    client.ask(1, 1)
    assert len(begun) == 1
    client.send(1, 1, extra=b"xx")
    status, answer, _ = client.receive()
    assert (status, answer) == (400, {"error": "unexpected additional input data for model 'simple'"})
    client.json = client.json.replace(b"[1, 16]", b"[1,16]")
    assert client.ask(2, 1) == [3, 1]
    assert len(begun) == 1
    client.path = "/v2/models/nope/infer"
    client.send(1, 1)
    assert client.receive()[0] == 404


def test_a_request_in_pieces_and_two_in_one_piece_are_answered_in_order(client: Client, begun: list[bytes]) -> None:
    client.ask(0, 0)
    whole = client.bytes_of(5, 1)
    client.socket.sendall(whole[:-40])
    client.socket.sendall(whole[-40:])
    assert np.frombuffer(client.receive()[2], np.int32)[0] == 6
    client.socket.sendall(client.bytes_of(10, 1) + client.bytes_of(20, 1))
    assert [np.frombuffer(client.receive()[2], np.int32)[0] for _ in range(2)] == [11, 21]


def test_a_request_behind_one_that_is_repeated_waits_for_its_turn(door: Any, client: Client) -> None:
    client.ask(0, 0)
    door.engine.behaviours["simple"] = None
    client.send(1, 1)
    door.wait_until(lambda: len(door.engine.held) == 1)
    client.send(2, 1)
    door.engine.behaviours["simple"] = formed
    ticket = door.engine.held[0]
    door.on_loop(lambda: ticket.send(formed(ticket.request)))
    assert [np.frombuffer(client.receive()[2], np.int32)[0] for _ in range(2)] == [2, 3]


def test_an_error_is_an_error_and_the_connection_lives(door: Any, client: Client) -> None:
    client.ask(0, 0)
    door.engine.behaviours["simple"] = lambda request: InferenceResponse(error=BackendFailure("boom"))
    client.send(1, 1)
    assert client.receive()[:2] == (500, {"error": "boom"})
    door.engine.behaviours["simple"] = formed
    assert client.ask(3, 1) == [4, 2]


def test_a_refusal_of_the_engine_is_answered(door: Any, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.ask(0, 0)

    def refuse(*_: Any) -> None:
        raise BackendFailure("not now")

    monkeypatch.setattr(door.engine, "infer", refuse)
    client.send(1, 1)
    assert client.receive()[:2] == (500, {"error": "not now"})


def test_a_model_that_is_loaded_anew_is_not_taken_for_the_old_one(door: Any, client: Client) -> None:
    client.ask(0, 0)
    client.ask(0, 0)
    old = door.engine.models["simple"]
    door.engine.models["simple"] = type(old)(**{**vars(old), "version": 2})
    client.send(1, 1)
    assert client.receive()[1]["model_version"] == "2"


def test_a_client_that_hangs_up_cancels_its_repeated_request(door: Any, client: Client) -> None:
    client.ask(0, 0)
    door.engine.behaviours["simple"] = None
    client.send(1, 1)
    door.wait_until(lambda: len(door.engine.held) == 1)
    client.close()
    door.wait_until(lambda: door.engine.held[0].cancelled)


def test_the_server_stops_while_a_repeated_request_is_under_way(door: Any, client: Client) -> None:
    client.ask(0, 0)
    door.engine.behaviours["simple"] = None
    client.send(1, 1)
    door.wait_until(lambda: len(door.engine.held) == 1)
    door.serving.run(door.service.stop_accepting())
    ticket = door.engine.held[0]
    door.on_loop(lambda: ticket.send(formed(ticket.request)))
    assert client.receive()[0] == 200
    assert client.stream.read() == b""
