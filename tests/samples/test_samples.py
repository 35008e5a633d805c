"""Every folder of ``model_repository`` loads and answers through the real server."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infer.server.repository import layout

if TYPE_CHECKING:
    import infer

REPOSITORY = Path(__file__).parents[2] / "model_repository"
NAMES = [entry.name for entry in layout.scan([REPOSITORY])]


def test_the_samples_are_those_of_the_readme() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(\w+)` \|", readme, re.MULTILINE)) == NAMES


def test_the_clients_folder_is_no_model() -> None:
    assert (REPOSITORY / "clients").is_dir()
    assert "clients" not in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_sample_is_ready(server: infer.Server, name: str) -> None:
    assert server.is_model_ready(name)


def test_simple_adds_and_subtracts_in_batches(server: infer.Server) -> None:
    left = np.arange(48, dtype=np.int32).reshape(3, 16)
    right = np.full((3, 16), 5, np.int32)
    result = server.infer("simple", {"INPUT0": left, "INPUT1": right})
    np.testing.assert_array_equal(result["OUTPUT0"], left + right)
    np.testing.assert_array_equal(result["OUTPUT1"], left - right)


def test_identity_sends_back_what_it_gets_and_zeros_for_the_rest(server: infer.Server) -> None:
    text = np.array(["größer".encode(), b"", b"\x00\xff"], dtype=object)
    numbers = np.array([[1.5, np.inf], [-0.0, 3.0]], np.float32)
    result = server.infer("identity", {"INPUT0": text, "INPUT1": numbers})
    assert result["OUTPUT0"].tolist() == text.tolist()
    np.testing.assert_array_equal(result["OUTPUT1"], numbers)
    assert result["OUTPUT2"].tolist() == [False]
    assert result.parameters["param1"] == 42


def test_batched_says_how_many_executed_together(server: infer.Server) -> None:
    values = [np.full((1 + number % 2, 1), number, np.int32) for number in range(8)]
    with ThreadPoolExecutor(len(values)) as pool:
        results = list(pool.map(lambda value: server.infer("batched", {"INPUT0": value}), values))
    for value, result in zip(values, results, strict=True):
        np.testing.assert_array_equal(result["OUTPUT0"], value)
    # Every execution of b rows was told to b rows: the sum over all rows of 1/b is the number of executions.
    executions = sum(len(each["BATCH_SIZE"]) / each["BATCH_SIZE"][0, 0] for each in results)
    statistics = server.statistics("batched")[0]
    assert round(executions, 6) == statistics.execution_count
    assert sum(1 / each["REQUESTS"][0, 0] for each in results) == pytest.approx(statistics.execution_count)
    assert statistics.inference_count == 12


@pytest.mark.parametrize("model", ["digits", "digits_torch"])
def test_digits_names_more_than_95_percent_of_the_held_out_digits(
    server: infer.Server, script: Any, model: str
) -> None:
    train = script("digits/train.py")
    _, images, _, digits = train.split()
    labels = (REPOSITORY / model / "labels.txt").read_text(encoding="utf-8").split()
    answers: list[int] = []
    for start in range(0, len(images), 64):
        probabilities = server.infer(model, {"image": images[start : start + 64]})["probabilities"]
        assert probabilities.dtype == np.float32
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
        answers += probabilities.argmax(axis=1).tolist()
    assert len(labels) == 10
    assert np.mean(np.array(answers) == digits) > 0.95


def test_both_classifiers_of_digits_are_the_same_one(server: infer.Server, script: Any) -> None:
    _, images, _, _ = script("digits/train.py").split()
    onnx, torch = (server.infer(name, {"image": images[:64]})["probabilities"] for name in ("digits", "digits_torch"))
    np.testing.assert_allclose(onnx, torch, atol=1e-5)


@pytest.mark.parametrize("file", ["digits/1/model.onnx", "digits_torch/1/model.pt", "llm_stream/1/weights.npz"])
def test_files_of_weights_are_small(file: str) -> None:
    assert (REPOSITORY / file).stat().st_size < 1_000_000
