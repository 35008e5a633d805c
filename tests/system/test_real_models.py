"""Models nobody here wrote, on real input: answers equal those of ONNX Runtime called directly.

Both come from public wheels and are put into a temporary repository by path, without a configuration.
"""

from __future__ import annotations

import importlib.util
import json
import wave
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
import pytest
from magika import Magika

import infer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

ROOT = Path(__file__).parents[2]
SAMPLE_RATE = 16_000
WINDOW = 512
"""Samples that silero-vad takes at once at 16 kHz."""
CONTEXT = 64
"""Samples of the window before that it wants in front of each window."""


def package_folder(name: str) -> Path:
    """Where a package is installed; it is not imported."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    return Path(next(iter(spec.submodule_search_locations or ())))


MAGIKA = package_folder("magika") / "models" / "standard_v3_3" / "model.onnx"
SILERO = package_folder("silero_vad") / "data" / "silero_vad.onnx"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[infer.Server]:
    repository = tmp_path_factory.mktemp("repository")
    for name, source in (("magika", MAGIKA), ("silero_vad", SILERO)):
        version = repository / name / "1"
        version.mkdir(parents=True)
        (version / "model.onnx").symlink_to(source)
    with infer.Server(model_repository=repository) as running:
        yield running


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, str]:
    """Ten real files and what they are, in magika's words."""
    made = tmp_path_factory.mktemp("files")
    speech_like = made / "tone.wav"
    with wave.open(str(speech_like), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(speech().tobytes())
    (made / "data.json").write_text(json.dumps({"rows": [{"id": i, "name": f"row {i}"} for i in range(99)]}, indent=1))
    (made / "page.html").write_text(
        "<!DOCTYPE html>\n<html><head><title>t</title></head><body><p>hello</p></body></html>\n"
    )
    import gzip

    (made / "archive.gz").write_bytes(gzip.compress((ROOT / "pyproject.toml").read_bytes()))
    return {
        ROOT / "backends" / "api" / "tensor.py": "python",
        ROOT / "model_repository" / "README.md": "markdown",
        ROOT / "pyproject.toml": "toml",
        MAGIKA: "onnx",
        Path(np.__file__).parent / "_core" / "include" / "numpy" / "ndarrayobject.h": "c",
        next((Path(np.__file__).parent / "_core").glob("_multiarray_umath*.so")): "elf",
        speech_like: "wav",
        made / "data.json": "json",
        made / "page.html": "html",
        made / "archive.gz": "gzip",
    }


def test_magika_is_completed_to_batches_of_bytes(server: infer.Server) -> None:
    config = server._running.engine.find("magika").config
    assert (config.platform, config.max_batch_size, config.scheduling) == ("onnxruntime_onnx", 4, "dynamic_batching")
    assert [(spec.name, str(spec.datatype), spec.dims) for spec in config.inputs] == [("bytes", "INT32", (2048,))]
    assert [(spec.name, str(spec.datatype), spec.dims) for spec in config.outputs] == [("target_label", "FP32", (214,))]


def test_magika_tells_what_ten_real_files_are_and_answers_as_the_runtime_does(
    server: infer.Server, files: dict[Path, str]
) -> None:
    magika = Magika()
    direct = onnxruntime.InferenceSession(MAGIKA, providers=["CPUExecutionProvider"])
    labels = [str(label) for label in magika._model_config.target_labels_space]
    rows = {path: magika_features(magika, path) for path in files}

    def ask(path: Path) -> NDArray[Any]:
        return server.infer("magika", {"bytes": rows[path]})["target_label"]

    with ThreadPoolExecutor(4) as clients:
        answers = dict(zip(rows, clients.map(ask, rows), strict=True))
    for path, answer in answers.items():
        # Requests execute together, up to four, and kernels add in another order for another batch size.
        batches = [direct.run(None, {"bytes": np.repeat(rows[path], size, axis=0)})[0] for size in range(1, 5)]
        assert any(np.allclose(answer, row, rtol=1e-4, atol=1e-6) for batch in batches for row in batch)
        assert answer.argmax() == batches[0].argmax()
    assert {path: labels[answer.argmax()] for path, answer in answers.items()} == files


def test_magika_answers_one_request_to_the_bit_as_the_runtime_does(
    server: infer.Server, files: dict[Path, str]
) -> None:
    row = magika_features(Magika(), next(iter(files)))
    (expected,) = onnxruntime.InferenceSession(MAGIKA, providers=["CPUExecutionProvider"]).run(None, {"bytes": row})
    np.testing.assert_array_equal(server.infer("magika", {"bytes": row})["target_label"], expected)


def test_silero_vad_is_completed_without_a_batch_and_its_scalar_is_one_number(server: infer.Server) -> None:
    config = server._running.engine.find("silero_vad").config
    assert config.max_batch_size == 0
    assert {spec.name: spec.dims for spec in config.inputs} == {"input": (-1, -1), "state": (2, -1, 128), "sr": (1,)}


def test_silero_vad_follows_speech_with_its_state_kept_by_the_client(server: infer.Server) -> None:
    direct = onnxruntime.InferenceSession(SILERO, providers=["CPUExecutionProvider"])
    state = expected_state = np.zeros((2, 1, 128), np.float32)
    rate = np.array(SAMPLE_RATE, np.int64)
    probabilities: list[float] = []
    for window in windows(speech().astype(np.float32) / 32768):
        result = server.infer("silero_vad", {"input": window, "state": state, "sr": rate.reshape(1)})
        probability, expected_state = direct.run(None, {"input": window, "state": expected_state, "sr": rate})
        np.testing.assert_allclose(result["output"], probability, rtol=1e-5, atol=1e-6)
        state = result["stateN"]
        np.testing.assert_allclose(state, expected_state, rtol=1e-4, atol=1e-5)
        probabilities.append(float(result["output"][0, 0]))
    third = len(probabilities) // 3
    quiet, talking = probabilities[: third - 2], probabilities[third + 4 : 2 * third - 2]
    assert max(quiet) < 0.2
    assert np.mean(talking) > 0.5


def windows(samples: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
    """Windows of 512 samples as silero-vad takes them: each behind the end of the one before."""
    padded = np.concatenate([np.zeros(CONTEXT, np.float32), samples])
    for start in range(0, len(samples) - WINDOW + 1, WINDOW):
        yield padded[start : start + CONTEXT + WINDOW][None]


def speech() -> NDArray[np.int16]:
    """A second of near silence, a second of a synthetic voice, a second of near silence; 16 kHz.

    The voice is a glottal pulse train with a gliding pitch through vowels' formants, in syllables: what a formant
    synthesiser makes, so that no recording needs to be carried along.
    """
    random = np.random.default_rng(3)
    time = np.arange(SAMPLE_RATE) / SAMPLE_RATE
    pitch = 120 + 25 * np.sin(2 * np.pi * 2.5 * time) - 20 * time
    pulses = np.diff(np.floor(np.cumsum(pitch) / SAMPLE_RATE), prepend=0.0) + 0.01 * random.standard_normal(len(time))
    voice = np.zeros(len(time))
    vowels = [(730, 1090, 2440), (270, 2290, 3010), (570, 840, 2410), (530, 1840, 2480)]
    for index, formants in enumerate(vowels):
        part = slice(index * SAMPLE_RATE // 4, (index + 1) * SAMPLE_RATE // 4)
        voice[part] = _through_formants(pulses[part], formants)
    voice *= 0.4 + 0.6 * np.abs(np.sin(2 * np.pi * 2 * time))
    silence = 1e-4 * random.standard_normal(len(time))
    signal = np.concatenate([silence, 0.5 * voice / np.abs(voice).max(), silence])
    return (signal * 32767).astype(np.int16)


def _through_formants(source: NDArray[np.float64], formants: tuple[int, ...]) -> NDArray[np.float64]:
    """A cascade of resonators, one a formant."""
    signal = source
    for frequency in formants:
        radius = np.exp(-np.pi * 90 / SAMPLE_RATE)
        angle = 2 * np.pi * frequency / SAMPLE_RATE
        first, second = 2 * radius * np.cos(angle), -(radius**2)
        out = np.zeros(len(signal) + 2)
        for index, value in enumerate(signal):
            out[index + 2] = value + first * out[index + 1] + second * out[index]
        signal = out[2:]
    return signal


def magika_features(magika: Magika, path: Path) -> NDArray[np.int32]:
    """What magika's own code takes from a file: 1,024 values of its beginning and as many of its end."""
    from magika.types import Seekable

    with path.open("rb") as file:
        config = magika._model_config
        features = magika._extract_features_from_seekable(
            Seekable(file),
            config.beg_size,
            config.mid_size,
            config.end_size,
            config.padding_token,
            config.block_size,
            config.use_inputs_at_offsets,
        )
    return np.array([[*features.beg, *features.mid, *features.end]], np.int32)
