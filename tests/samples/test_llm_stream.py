"""The language model in miniature: what it writes, for how many at once, and how its weights come about."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from infer.backends.api.errors import Code, InferError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import infer

ENDLESS = 2**31 - 1
AT_ONCE = 4
"""MAX_GENERATIONS of the sample's configuration."""


def stream(server: infer.Server, prompt: str | bytes, **options: Any) -> Any:
    datatypes = {"MAX_TOKENS": np.int32, "TEMPERATURE": np.float32, "SEED": np.int64}
    text = prompt.encode() if isinstance(prompt, str) else prompt
    inputs = {"PROMPT": np.array([text], np.object_)}
    inputs |= {name: np.array([value], datatypes[name]) for name, value in options.items()}
    return server.stream("llm_stream", inputs)


def written(server: infer.Server, prompt: str | bytes, **options: Any) -> str:
    return "".join(each["TEXT"][0].decode() for each in stream(server, prompt, **options) if each.outputs)


def test_it_goes_on_with_the_text_that_it_has_learnt(server: infer.Server, repository: Path) -> None:
    text = (repository / "llm_stream" / "text.txt").read_text(encoding="utf-8")
    assert written(server, text[:20], MAX_TOKENS=100, TEMPERATURE=0) == text[20:120]


def test_every_token_is_a_response_and_the_last_one_carries_the_final_flag(server: infer.Server) -> None:
    responses = list(stream(server, "A request", MAX_TOKENS=5))
    assert [each["TEXT"].shape for each in responses] == [(1,)] * 5
    assert all(len(each["TEXT"][0].decode()) == 1 for each in responses)


def test_inputs_that_are_left_out_have_defaults(server: infer.Server) -> None:
    assert len(written(server, "The baker")) == 64


def test_a_seed_writes_the_same_text_again_and_another_seed_another_one(server: infer.Server) -> None:
    wild = {"MAX_TOKENS": 80, "TEMPERATURE": 2.0}
    first, again, other = (written(server, "The baker", SEED=seed, **wild) for seed in (3, 3, 4))
    assert first == again != other


@pytest.mark.parametrize("prompt", ["", "x", "größer 🍞\t", b"\xff\xfe", b"\0", "A request " * 5000])
def test_any_text_is_gone_on_with(server: infer.Server, prompt: str | bytes) -> None:
    assert len(written(server, prompt, MAX_TOKENS=8)) == 8


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"MAX_TOKENS": 0}, "MAX_TOKENS must be at least 1, not 0"),
        ({"MAX_TOKENS": -7}, "MAX_TOKENS must be at least 1, not -7"),
        ({"TEMPERATURE": -0.5}, "TEMPERATURE must be a number from 0 .* up, not -0.5"),
        ({"TEMPERATURE": np.nan}, "TEMPERATURE must be a number from 0 .* up, not nan"),
        ({"TEMPERATURE": np.inf}, "TEMPERATURE must be a number from 0 .* up, not inf"),
        ({"SEED": -1}, "SEED must be at least 0, not -1"),
    ],
)
def test_an_input_that_makes_no_sense_is_refused_by_name(
    server: infer.Server, options: dict[str, float], sentence: str
) -> None:
    with pytest.raises(InferError, match=sentence) as caught:
        written(server, "x", **options)
    assert caught.value.code is Code.INVALID_ARG
    assert len(written(server, "x", MAX_TOKENS=3)) == 3


def test_so_many_texts_are_written_at_once_and_the_next_one_begins_when_a_reader_goes_away(
    server: infer.Server,
) -> None:
    texts = [stream(server, "A", MAX_TOKENS=ENDLESS) for _ in range(AT_ONCE)]
    for text in texts:
        next(text)
    with contextlib.closing(stream(server, "B", MAX_TOKENS=3)) as further, ThreadPoolExecutor(1) as pool:
        first = pool.submit(next, further)
        for text in texts:
            assert len([next(text) for _ in range(50)]) == 50
        assert not first.done()
        texts.pop().close()
        assert first.result(60)["TEXT"].shape == (1,)
        assert len(list(further)) == 2
    for text in texts:
        text.close()
    # All places are free again: as many as before are written to their ends.
    with ThreadPoolExecutor(2 * AT_ONCE) as pool:
        ends = list(pool.map(lambda _: len(written(server, "A", MAX_TOKENS=200)), range(2 * AT_ONCE)))
    assert ends == [200] * 2 * AT_ONCE


@pytest.fixture(scope="module")
def train(script: Callable[[str], Any]) -> Iterator[Any]:
    """The script that trains. Its matrices are too small to be worth the threads that would share them."""
    with threadpool_limits(1):
        yield script("llm_stream/train.py")


def test_the_gradients_are_the_slopes_of_the_loss(train: Any) -> None:
    random = np.random.default_rng(1)
    content = "some text to learn"
    network = train.untrained(content, random)
    network.weights = {name: array.astype(np.float64) for name, array in network.weights.items()}
    slopes = train.gradients(network, *train.examples(network, content))
    for name, array in network.weights.items():
        for place in (0, array.size // 2, array.size - 1):
            index = np.unravel_index(place, array.shape)
            before = array[index]
            losses: list[float] = []
            for step in (1e-5, -1e-5):
                array[index] = before + step
                losses.append(train.entropy(network, content))
            array[index] = before
            assert slopes[name][index] == pytest.approx((losses[0] - losses[1]) / 2e-5, rel=1e-3, abs=1e-7), name


def test_training_makes_a_text_less_surprising_and_the_same_way_each_time(train: Any) -> None:
    content = train.text()[:256]
    losses = [train.entropy(train.trained(content, epochs), content) for epochs in (0, 20, 20)]
    assert losses[0] > 3
    assert losses[1] < 2
    assert losses[1] == losses[2]


def test_the_weights_in_the_repository_know_the_text(train: Any, script: Callable[[str], Any]) -> None:
    network = script("llm_stream/1/network.py").Network.read(train.TARGET)
    assert set(network.alphabet) == set(train.text())
    assert train.entropy(network, train.text()) < train.MOST_LOSS


@pytest.mark.slow
def test_the_script_makes_weights_that_write_what_those_in_the_repository_write(
    train: Any, script: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = script("llm_stream/1/network.py")
    kept = module.Network.read(train.TARGET)
    monkeypatch.setattr(train, "TARGET", tmp_path / "weights.npz")
    train.main()
    made = module.Network.read(train.TARGET)
    assert {name: array.shape for name, array in made.weights.items()} == {
        name: array.shape for name, array in kept.weights.items()
    }
    texts = [module.Text(network, "A request", 0.0, None) for network in (kept, made)]
    one, other = ("".join(text.next_character() for _ in range(150)) for text in texts)
    assert one == other
    assert train.TARGET.stat().st_size < 200_000


def test_a_text_that_was_learnt_too_badly_is_not_written(
    train: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "TARGET", tmp_path / "weights.npz")
    monkeypatch.setattr(train, "trained", lambda content: train.untrained(content, np.random.default_rng(1)))
    with pytest.raises(SystemExit, match="the network knows the text only to"):
        train.main()
    assert not train.TARGET.exists()
