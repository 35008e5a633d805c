"""A load that fails says where and leaves nothing half open; loads, unloads and the end take turns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from infer.backends import catalog
from infer.backends.api.errors import Code, LoadFailed, NotFound, NotInstalled, Unavailable
from infer.backends.api.request import InferenceRequest
from infer.server.engine import Engine, EngineSettings
from infer.server.lifecycle.loader import LoaderSettings

if TYPE_CHECKING:
    from pathlib import Path

    from infer.backends.api.backend import Backend, BackendContext
    from tests.unit.server.lifecycle.conftest import Rig

LIMIT_S = 20
TWO_INSTANCES = "instance_group [{ kind: KIND_CPU count: 2 }]\n"
ALL_VERSIONS = "version_policy { all {} }\n"


async def test_a_version_that_fails_takes_the_others_down_and_each_says_why(rig: Rig) -> None:
    rig.script.load[2] = LoadFailed("the weights of version 2 are gone")
    rig.add("m", ALL_VERSIONS, versions=(1, 2, 3))
    error = await rig.refusal("m")
    assert str(error) == (
        "load failed for model 'm': version 2 is at UNAVAILABLE state: Internal: the weights of version 2 are gone;\n"
    )
    assert error.code is Code.INVALID_ARG
    assert rig.reasons() == {
        "1": "UNAVAILABLE another version of the model failed to load",
        "2": "UNAVAILABLE Internal: the weights of version 2 are gone",
        "3": "UNAVAILABLE another version of the model failed to load",
    }
    assert {"close 1", "close 3"} <= set(rig.script.events)
    assert rig.script.events.count("end m_0") == 2
    with pytest.raises(NotFound, match="'m' has no available versions"):
        rig.send("m")
    with pytest.raises(Unavailable, match="'m' version 2 is not at ready state"):
        rig.engine.find("m", 2)


async def test_a_failed_new_version_leaves_the_old_one_serving_and_shows_why(rig: Rig) -> None:
    rig.add("m", ALL_VERSIONS, versions=(1,))
    await rig.engine.load("m")
    rig.script.load[2] = LoadFailed("no room")
    rig.add("m", ALL_VERSIONS, versions=(1, 2))
    assert "version 2 is at UNAVAILABLE state: Internal: no room" in str(await rig.refusal("m"))
    assert rig.reasons() == {"1": "READY", "2": "UNAVAILABLE Internal: no room"}
    assert (await rig.send("m")).error is None
    rig.script.load.clear()
    await rig.engine.load("m")
    assert rig.reasons() == {"1": "READY", "2": "READY"}
    assert rig.engine.find("m").version == 2


async def test_versions_that_are_no_longer_wanted_go_when_the_others_serve(rig: Rig) -> None:
    rig.add("m", ALL_VERSIONS, versions=(1, 2))
    await rig.engine.load("m")
    rig.add("m", "version_policy { specific { versions: [1] } }")
    await rig.engine.load("m")
    await rig.engine.unload("never loaded")
    assert rig.engine.ready_versions("m") == (1,)
    with pytest.raises(Unavailable, match="version 2 is not at ready state"):
        rig.engine.find("m", 2)


async def test_an_instance_that_fails_closes_its_siblings_and_the_model(rig: Rig) -> None:
    rig.script.instance["m_0_1"] = RuntimeError("no licence for a second one")
    rig.add("m", TWO_INSTANCES)
    assert "Internal: RuntimeError: no licence for a second one" in str(await rig.refusal("m"))
    assert rig.script.events == ["start", "open 1", "instance m_0_0", "end m_0_0", "end m_0_1", "close 1"]


async def test_a_fault_of_the_backend_itself_is_a_reason_with_the_exceptions_name(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.script.load[1] = ZeroDivisionError("division by zero")
    rig.add("m")
    assert "Internal: ZeroDivisionError: division by zero" in str(await rig.refusal("m"))
    assert rig.reasons() == {"1": "UNAVAILABLE Internal: ZeroDivisionError: division by zero"}
    assert "Traceback" in caplog.text


async def test_a_model_whose_instances_are_all_passive_is_refused(rig: Rig) -> None:
    rig.add("m", "instance_group [{ kind: KIND_CPU count: 1 passive: true }]")
    assert "no instance that executes" in str(await rig.refusal("m"))
    assert rig.script.events == ["start", "open 1", "close 1"]


async def test_labels_are_read_and_a_missing_or_foreign_file_is_named(rig: Rig) -> None:
    def labelled(filename: str) -> None:
        rig.add("m")
        path = rig.folder / "m" / "config.pbtxt"
        path.write_text(path.read_text().replace('name: "OUTPUT0"', f'name: "OUTPUT0" label_filename: "{filename}"'))

    labelled("labels.txt")
    assert "unable to open label file" in str(await rig.refusal("m"))
    assert "No such file" in rig.reasons()["1"]
    labelled("../outside.txt")
    assert "'../outside.txt' of output 'OUTPUT0' is outside model directory" in str(await rig.refusal("m"))
    (rig.folder / "m" / "labels.txt").write_text("cat\ndog\n")
    labelled("labels.txt")
    await rig.engine.load("m")
    assert rig.engine.find("m").signature.labels == {"OUTPUT0": ("cat", "dog")}


async def test_without_auto_complete_a_model_needs_a_configuration_that_is_sound(rig: Rig) -> None:
    rig.make(auto_complete=False)
    (rig.folder / "bare" / "1").mkdir(parents=True)
    (rig.folder / "bare" / "1" / "model.py").touch()
    assert "'bare' has no config.pbtxt, and --disable-auto-complete-config forbids" in str(await rig.refusal("bare"))
    rig.add("m")
    await rig.engine.load("m")
    assert (await rig.send("m")).error is None
    rig.add("wrong", "max_batch_size: -1")
    assert "wrong/config.pbtxt:5" in str(await rig.refusal("wrong"))


async def test_a_backend_that_did_not_start_is_tried_again_with_the_next_load(rig: Rig) -> None:
    rig.script.start = OSError("too many open files")
    rig.add("m")
    error = await rig.refusal("m")
    assert "backend 'scripted' did not start: too many open files" in str(error)
    assert isinstance(error, LoadFailed)
    rig.script.start = None
    await rig.engine.load("m")
    assert rig.engine.is_model_ready("m")


async def test_loads_at_the_same_time_start_their_backend_once(rig: Rig) -> None:
    for name in "abc":
        rig.add(name)
    await asyncio.gather(*(rig.engine.load(name) for name in "abc"))
    assert rig.script.events.count("start") == 1


@pytest.mark.parametrize("raised", [RuntimeError("it has crashed"), LoadFailed("it says no")], ids=["foreign", "own"])
async def test_a_backend_that_does_not_stop_cleanly_does_not_keep_the_server(rig: Rig, raised: Exception) -> None:
    rig.add("m")
    await rig.engine.load("m")
    rig.script.stop = raised
    await rig.stop()
    assert rig.script.events[-2:] == ["close 1", "stop"]


async def test_a_load_that_comes_while_the_model_unloads_serves_at_once(rig: Rig) -> None:
    rig.add("m")
    await rig.engine.load("m")
    rig.script.may_answer.clear()
    answer = rig.send("m")
    await rig.script.until_executing()
    unloading = asyncio.ensure_future(rig.engine.unload("m"))
    await asyncio.sleep(0)
    assert rig.reasons() == {"1": "UNLOADING"}
    with pytest.raises(NotFound):
        rig.send("m")
    await rig.engine.load("m")
    assert rig.reasons() == {"1": "READY"}
    assert not unloading.done()
    rig.script.may_answer.set()
    assert (await answer).error is None
    await unloading
    assert rig.reasons() == {"1": "READY"}
    assert (await rig.send("m")).error is None


async def test_an_unload_that_comes_while_the_model_loads_has_the_last_word(rig: Rig) -> None:
    rig.script.may_load.clear()
    rig.add("m")
    loading = asyncio.ensure_future(rig.engine.load("m"))
    await rig.script.loading.wait()
    assert rig.reasons() == {"1": "LOADING"}
    with pytest.raises(Unavailable, match="version 1 is not at ready state"):
        rig.engine.find("m", 1)
    unloading = asyncio.ensure_future(rig.engine.unload("m"))
    rig.script.may_load.set()
    await loading
    await unloading
    assert rig.reasons() == {"1": "UNAVAILABLE unloaded"}
    assert rig.script.events[-2:] == ["end m_0", "close 1"]


async def test_who_gives_up_waiting_for_a_load_does_not_stop_it(rig: Rig) -> None:
    rig.script.may_load.clear()
    rig.add("m")
    loading = asyncio.ensure_future(rig.engine.load("m"))
    await rig.script.loading.wait()
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading
    rig.script.may_load.set()
    await rig.engine.unload("nobody waits for this")
    await rig.engine.load("m")
    assert rig.engine.is_model_ready("m")


async def test_the_drain_counts_what_did_not_make_it_and_the_end_answers_it(rig: Rig) -> None:
    rig.add("m")
    await rig.engine.load("m")
    rig.script.may_answer.clear()
    answers = [rig.send("m") for _ in range(3)]
    await rig.script.until_executing()
    assert await rig.engine.drain(0) == 3
    stopping = asyncio.ensure_future(rig.engine.stop())
    errors = [(await asyncio.wait_for(answer, LIMIT_S)).error for answer in answers]
    assert {str(error) for error in errors} == {"Server exiting"}
    rig.script.may_answer.set()
    await asyncio.wait_for(stopping, LIMIT_S)


@pytest.mark.parametrize("going", ["unload", "reload"])
async def test_a_request_of_a_version_on_its_way_out_is_drained_and_answered_at_the_end_too(
    rig: Rig, going: str
) -> None:
    rig.add("m")
    await rig.engine.load("m")
    rig.script.may_answer.clear()
    answer = rig.send("m")
    await rig.script.until_executing()
    rig.touch("m/1")
    change = rig.engine.unload("m", wait=False) if going == "unload" else rig.engine.load("m")
    await change
    assert await rig.engine.drain(0) == 1, "the drain knows of it"
    stopping = asyncio.ensure_future(rig.engine.stop())
    assert str((await asyncio.wait_for(answer, LIMIT_S)).error) == "Server exiting"
    rig.script.may_answer.set()
    await asyncio.wait_for(stopping, LIMIT_S)


async def test_the_index_can_be_looked_up_anew(rig: Rig) -> None:
    await rig.engine.start()
    assert rig.engine.index() == ()
    rig.add("late")
    await rig.engine.refresh_index()
    assert [(entry.name, entry.state) for entry in rig.engine.index()] == [("late", "")]


async def test_what_a_door_refuses_is_counted_by_its_code(rig: Rig) -> None:
    rig.engine.refuse(Unavailable("too many connections"))
    assert rig.engine.refusals["UNAVAILABLE"] == 1


async def test_a_refusal_is_told_in_the_log_with_the_requests_id(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "infer")
    with pytest.raises(NotFound):
        rig.engine.infer(InferenceRequest("nobody", {}, request_id="42"), pytest.fail)
    record = caplog.records[-1]
    assert record.getMessage() == "request to model 'nobody' refused: Request for unknown model: 'nobody' is not found"
    assert vars(record)["request_id"] == "42"


async def test_a_model_whose_framework_is_not_installed_is_passed_over_at_start_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing(name: str, context: BackendContext) -> Backend:
        raise NotInstalled("backend 'torch' needs Python package 'torch'; run `pip install 'infer-server[torch]'`")

    monkeypatch.setattr(catalog, "create", missing)
    version = tmp_path / "digits" / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text('backend: "torch"')
    for skips in (True, False):
        settings = LoaderSettings((tmp_path,), skip_missing_backends=skips)
        engine = Engine(EngineSettings(loader=settings), asyncio.get_running_loop())
        caplog.clear()
        failures = await engine.start()
        assert set(failures) == (set() if skips else {"digits"})
        assert engine.ready is skips
        (entry,) = engine.index()
        assert entry.state == "UNAVAILABLE"
        assert "run `pip install 'infer-server[torch]'`" in entry.reason
        assert caplog.records[-1].levelname == ("WARNING" if skips else "ERROR")
        with pytest.raises(LoadFailed, match="needs Python package 'torch'"):
            await engine.load("digits")
        assert not engine.ready
        await engine.stop()
