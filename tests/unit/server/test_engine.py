"""The engine looks up, checks, executes, counts, loads, unloads, drains, and stops without leaving anything."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

from infer.backends.api.errors import Code, InferError, Internal, LoadFailed, Unavailable
from infer.backends.api.model_config import InstanceKind
from infer.backends.api.request import InferenceRequest
from infer.backends.api.tensor import Tensor
from infer.server.engine import Engine, EngineSettings
from infer.server.lifecycle.loader import LoaderSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from infer.backends.api.response import InferenceResponse

Start = Callable[..., Engine]

CONFIG = """
backend: "identity"
max_batch_size: 4
input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] }]
"""


def add_model(repository: Path, name: str, config: str = CONFIG, versions: tuple[int, ...] = (1,)) -> None:
    folder = repository / name
    folder.mkdir(exist_ok=True)
    for version in versions:
        (folder / str(version)).mkdir(exist_ok=True)
    (folder / "config.pbtxt").write_text(config)


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    engines: list[Engine] = []
    before = set(threading.enumerate())

    def make(**settings: object) -> Engine:
        loader = LoaderSettings((tmp_path,))
        engine = Engine(EngineSettings(loader=loader, **settings), asyncio.get_running_loop())
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        await engine.stop()
    left = set(threading.enumerate()) - before
    assert not [thread.name for thread in left if thread.name.startswith(("loader", "instance"))]


def request(name: str = "m", rows: int = 1, **fields: object) -> InferenceRequest:
    return InferenceRequest(name, {"INPUT0": Tensor.from_numpy(np.ones((rows, 2), np.float32))}, **fields)


async def infer(engine: Engine, it: InferenceRequest) -> InferenceResponse:
    answer: asyncio.Future[InferenceResponse] = asyncio.get_running_loop().create_future()
    engine.infer(it, answer.set_result)
    return await answer


async def test_every_model_is_loaded_and_answers(start: Start, tmp_path: Path) -> None:
    add_model(tmp_path, "m")
    add_model(tmp_path, "n")
    engine = start()
    assert not engine.ready
    assert await engine.start() == {}
    assert engine.ready
    for name in "mn":
        response = await infer(engine, request(name, rows=2))
        assert response.outputs["OUTPUT0"].as_numpy().shape == (2, 2)
    pictures = engine.statistics()
    assert [(picture.name, picture.inference_count, picture.execution_count) for picture in pictures] == [
        ("m", 2, 1),
        ("n", 2, 1),
    ]


async def test_a_refused_request_raises_and_is_counted_at_the_door(start: Start, tmp_path: Path) -> None:
    add_model(tmp_path, "m")
    engine = start()
    await engine.start()
    with pytest.raises(InferError, match="batch-size must be <= 4"):
        engine.infer(request(rows=5), pytest.fail)
    with pytest.raises(InferError, match="'nope' is not found"):
        engine.infer(request("nope"), pytest.fail)
    assert (engine.refusals["INVALID_ARG"], engine.refusals["NOT_FOUND"]) == (1, 1)
    assert engine.statistics("m")[0].fail.count == 0


async def test_statistics_of_what_does_not_serve_are_refused_in_tritons_words(start: Start, tmp_path: Path) -> None:
    add_model(tmp_path, "m")
    engine = start()
    await engine.start()
    with pytest.raises(InferError, match="requested model 'nope' is not available"):
        engine.statistics("nope")
    with pytest.raises(InferError, match="requested model version is not available for model 'm'"):
        engine.statistics("m", "7")


async def test_only_the_latest_version_is_loaded_unless_the_policy_says_otherwise(start: Start, tmp_path: Path) -> None:
    add_model(tmp_path, "m", versions=(1, 2, 10))
    add_model(tmp_path, "n", CONFIG + "version_policy { all {} }", versions=(1, 2))
    engine = start()
    await engine.start()
    assert engine.ready_versions("m") == (10,)
    assert engine.ready_versions("n") == (1, 2)
    assert engine.find("n").version == 2


async def test_a_model_that_fails_shows_why_and_the_others_serve(start: Start, tmp_path: Path) -> None:
    add_model(tmp_path, "good")
    add_model(tmp_path, "typo", CONFIG.replace("max_batch_size", "max_batch_sise"))
    add_model(tmp_path, "unknown", CONFIG.replace("identity", "nonsense"))
    add_model(tmp_path, "noversion", versions=())
    engine = start()
    failures = await engine.start()
    assert set(failures) == {"typo", "unknown", "noversion"}
    assert isinstance(failures["typo"], Internal)
    assert "failed to load 'typo', failed to poll from model repository" in str(failures["typo"])
    assert "config.pbtxt:3" in str(failures["typo"])
    assert "at least one version must be available" in str(failures["noversion"])
    index = {entry.name: entry for entry in engine.index()}
    assert index["good"].state == "READY"
    assert "max_batch_sise" in index["typo"].reason
    assert "nonsense" in index["unknown"].reason
    assert not engine.ready
    assert (await infer(engine, request("good"))).error is None
    assert [entry.name for entry in engine.index(ready_only=True)] == ["good"]


async def test_readiness_may_look_at_the_server_only(start: Start, tmp_path: Path) -> None:
    add_model(tmp_path, "broken", "nonsense")
    engine = start(strict_readiness=False)
    await engine.start()
    assert engine.ready


async def test_explicit_mode_loads_what_it_is_told(start: Start, tmp_path: Path) -> None:
    add_model(tmp_path, "m")
    add_model(tmp_path, "n")
    engine = start(control_mode="explicit", startup_models=("n",))
    await engine.start()
    assert [(entry.name, entry.state) for entry in engine.index()] == [("m", ""), ("n", "READY")]
    await engine.load("m")
    assert engine.is_model_ready("m")


async def test_unload_takes_a_model_out_and_load_brings_it_back(start: Start, tmp_path: Path) -> None:
    add_model(tmp_path, "m")
    engine = start()
    await engine.start()
    await engine.unload("m")
    assert engine.index()[0].state == "UNAVAILABLE"
    assert engine.index()[0].reason == "unloaded"
    assert engine.ready
    with pytest.raises(InferError, match="'m' has no available versions"):
        engine.infer(request(), pytest.fail)
    await engine.load("m")
    assert (await infer(engine, request())).error is None
    await engine.unload("never heard of")


async def test_a_reload_that_fails_leaves_the_old_copy_serving(start: Start, tmp_path: Path) -> None:
    add_model(tmp_path, "m")
    engine = start()
    await engine.start()
    add_model(tmp_path, "m", CONFIG.replace("identity", "nonsense"))
    with pytest.raises(InferError):
        await engine.load("m")
    assert (await infer(engine, request())).error is None
    assert engine.ready


async def test_a_reload_swaps_and_the_old_copy_answers_what_it_holds(start: Start, tmp_path: Path) -> None:
    add_model(tmp_path, "m")
    engine = start()
    await engine.start()
    old = engine.find("m")
    answer: asyncio.Future[InferenceResponse] = asyncio.get_running_loop().create_future()
    engine.infer(request(), answer.set_result)
    add_model(tmp_path, "m", CONFIG.replace("max_batch_size: 4", "max_batch_size: 2"))
    await engine.load("m")
    assert (await answer).error is None
    assert engine.find("m") is not old
    with pytest.raises(InferError, match="batch-size must be <= 2"):
        engine.infer(request(rows=3), pytest.fail, old)


async def test_loads_of_many_models_run_side_by_side(start: Start, tmp_path: Path) -> None:
    for index in range(12):
        add_model(tmp_path, f"m{index}")
    engine = start(control_mode="explicit")
    await engine.start()
    await asyncio.gather(*(engine.load(f"m{index}") for index in range(12)))
    await asyncio.gather(*(engine.load("m0") for _ in range(4)), engine.unload("m0"), engine.load("m0"))
    assert len(engine.index(ready_only=True)) == 12


async def test_a_name_that_leads_out_of_the_repository_is_refused(start: Start, tmp_path: Path) -> None:
    engine = start(control_mode="explicit")
    await engine.start()
    for name in ("", "  ", "../m", "a/b"):
        with pytest.raises(InferError):
            await engine.load(name)
    assert engine.index() == ()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("ensemble_scheduling { step [] }", "does not serve ensembles yet"),
        ('sequence_batching { state { input_name: "s" output_name: "t" } }', "does not keep states yet"),
        (
            'parameters { key: "TRITON_BATCH_STRATEGY_PATH" value { string_value: "batch.so" } }',
            "names a custom batching library .* remove the parameter",
        ),
    ],
)
def test_what_is_not_built_yet_is_refused_and_not_served_wrongly(words: str, sentence: str) -> None:
    from infer.server.lifecycle.planning import refuse_what_is_not_built
    from infer.server.repository import config_reader, pbtxt, schema

    document = schema.to_document(pbtxt.parse(words, source="config.pbtxt"))
    config = config_reader.from_document(document, source="config.pbtxt", name="m")
    with pytest.raises(LoadFailed, match=sentence):
        refuse_what_is_not_built(config)


async def test_draining_refuses_new_requests_and_keeps_calls_of_models(start: Start, tmp_path: Path) -> None:
    add_model(tmp_path, "m")
    engine = start()
    await engine.start()
    assert await engine.drain(1) == 0
    assert not engine.live
    assert not engine.ready
    with pytest.raises(Unavailable, match="Server is stopping"):
        engine.infer(request(), pytest.fail)
    answer: asyncio.Future[InferenceResponse] = asyncio.get_running_loop().create_future()
    engine.infer(request(), answer.set_result, internal=True)
    assert (await answer).error is None
    with pytest.raises(Unavailable):
        await engine.load("m")


async def test_a_repository_that_is_none_is_named(tmp_path: Path) -> None:
    loader = LoaderSettings((tmp_path / "nowhere",))
    engine = Engine(EngineSettings(loader=loader), asyncio.get_running_loop())
    with pytest.raises(InferError, match=r"repository path is not a valid directory.*nowhere"):
        await engine.start()
    await engine.stop()


async def test_stop_answers_what_is_in_flight(start: Start, tmp_path: Path) -> None:
    delay = 'parameters { key: "execute_delay_ms" value: { string_value: "50" } }'
    add_model(tmp_path, "m", CONFIG + delay + "instance_group [{ kind: KIND_CPU count: 1 }]")
    engine = start()
    await engine.start()
    answers: list[InferenceResponse] = []
    for _ in range(20):
        engine.infer(request(), answers.append)
    await engine.stop()
    assert len(answers) == 20
    assert {answer.error.code for answer in answers if answer.error} == {Code.UNAVAILABLE}


async def test_stop_ends_a_load_that_hangs(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from infer.backends.identity.backend import IdentityBackend

    reached = asyncio.Event()

    async def hang(self: object, config: object, files: object) -> None:
        reached.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(IdentityBackend, "load", hang)
    add_model(tmp_path, "m")
    engine = start(control_mode="explicit")
    await engine.start()
    loading = asyncio.ensure_future(engine.load("m"))
    await reached.wait()
    await engine.stop()
    with pytest.raises(asyncio.CancelledError):
        await loading


async def test_a_name_that_no_repository_holds_leaves_no_trace(start: Start, tmp_path: Path) -> None:
    add_model(tmp_path, "m")
    engine = start(control_mode="explicit", startup_models=("m",))
    await engine.start()
    with pytest.raises(Internal, match="failed to load 'nope', failed to poll from model repository: no folder 'nope'"):
        await engine.load("nope")
    assert [entry.name for entry in engine.index()] == ["m"]
    assert engine.ready


async def test_instances_are_on_a_gpu_only_where_the_backend_can_use_one(tmp_path: Path) -> None:
    add_model(tmp_path, "m")
    (tmp_path / "p" / "1").mkdir(parents=True)
    model = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
    (tmp_path / "p" / "1" / "model.py").write_text(model)
    loader = LoaderSettings((tmp_path,), gpus=(0, 1))
    command = (sys.executable, "-P", "-m", "infer", "_zygote")
    engine = Engine(EngineSettings(loader=loader, worker_command=command), asyncio.get_running_loop())
    assert await engine.start() == {}
    groups = {name: engine.find(name).config.instance_groups[0] for name in "mp"}
    assert (groups["m"].kind, groups["m"].gpus) == (InstanceKind.CPU, ())
    assert (groups["p"].kind, groups["p"].gpus) == (InstanceKind.GPU, (0, 1))
    await engine.stop()
