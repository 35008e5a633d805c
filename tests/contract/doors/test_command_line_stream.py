"""`infer call --stream`'s client against the real door."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from infer.tui import inference
from infer.tui.client import Client
from infer.tui.failure import ClientError, Kind
from infer.tui.stream import stream

if TYPE_CHECKING:
    from infer.tui.inference import Answer


@pytest.fixture
def client(url: str) -> Client:
    """The HTTP port, for metadata."""
    return Client(f"http://{url}")


def answers(
    client: Client, grpc_url: str, model: str, given: dict[str, object], wishes: inference.Wishes | None = None
) -> list[Answer]:
    request = inference.prepare(client, model, "", given, wishes or inference.Wishes())
    return list(stream(request, grpc_url, 20.0))


def test_a_decoupled_model_answers_as_often_as_it_likes(client: Client, grpc_url: str) -> None:
    found = answers(client, grpc_url, "repeat", {"INPUT0": [3]}, inference.Wishes("7"))
    assert [answer.tensors[0].values for answer in found] == [[0.0], [1.0], [2.0]]
    assert {answer.head["id"] for answer in found} == {"7"}
    assert answers(client, grpc_url, "repeat", {"INPUT0": [0]}) == []


def test_an_ordinary_model_answers_once(client: Client, grpc_url: str) -> None:
    numbers = list(range(16))
    (answer,) = answers(client, grpc_url, "simple", {"INPUT0": numbers, "INPUT1": [1] * 16})
    assert answer.tensors[0].values == [number + 1 for number in numbers]
    assert answer.tensors[1].values == [number - 1 for number in numbers]


def test_only_the_outputs_asked_for_come(client: Client, grpc_url: str) -> None:
    given: dict[str, object] = {"INPUT0": [1] * 16, "INPUT1": [1] * 16}
    (answer,) = answers(client, grpc_url, "simple", given, inference.Wishes(outputs=("OUTPUT1",)))
    assert [tensor.name for tensor in answer.tensors] == ["OUTPUT1"]


@pytest.mark.parametrize("size", [1, 65_535, 5_000_000], ids=str)
def test_tensors_of_any_size_flow_both_ways(client: Client, grpc_url: str, size: int) -> None:
    """Beyond the windows that both sides begin with."""
    given: dict[str, object] = {"INPUT0": np.arange(size, dtype=np.float32)}
    (answer,) = answers(client, grpc_url, "ident_FP32", given)
    assert answer.tensors[0].values[-1] == size - 1
    assert len(answer.tensors[0].values) == size


def test_a_failure_after_responses_is_the_models_sentence(client: Client, grpc_url: str) -> None:
    request = inference.prepare(client, "repeat", "", {"INPUT0": [-2]})
    found: list[Answer] = []
    with pytest.raises(ClientError) as caught:
        found.extend(stream(request, grpc_url, 20.0))
    assert caught.value.why == "enough"


def test_an_unknown_model_is_not_found(client: Client, grpc_url: str) -> None:
    wishes = inference.Wishes(shapes={"X": [1]}, datatypes={"X": "FP32"})
    with pytest.raises(ClientError) as caught:
        answers(client, grpc_url, "nobody", {"X": [1]}, wishes)
    assert caught.value.kind is Kind.NOT_FOUND


def test_a_wrong_input_is_refused_with_the_servers_sentence(client: Client, grpc_url: str) -> None:
    wishes = inference.Wishes(shapes={"WRONG": [1, 16]}, datatypes={"WRONG": "INT32"})
    with pytest.raises(ClientError) as caught:
        answers(client, grpc_url, "simple", {"WRONG": [0] * 16}, wishes)
    assert "WRONG" in caught.value.why or "input" in caught.value.why


def test_a_port_that_is_no_grpc_is_said_to_be_none(client: Client, url: str) -> None:
    with pytest.raises(ClientError) as caught:
        answers(client, url, "repeat", {"INPUT0": [1]})
    assert "--grpc-url" in caught.value.fix
