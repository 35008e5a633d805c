"""What a model raises that is no ``Exception`` or cannot be told, and what it ends its process with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from infer.backends.api.backend import InstanceState
from infer.backends.api.errors import BackendFailure, InstanceDied, LoadFailed

if TYPE_CHECKING:
    Rig = Any

IN_BOTH_MODES = True
SOURCE = """
class Base(BaseException): pass
class TritonPythonModel:
    {how} execute(self, requests):
        {statement}
        return [Response([T("OUT", np.ones(1, np.int32))]) for _ in requests]
"""
ERRORS = ("KeyboardInterrupt", "GeneratorExit", "Base", "CancelledError")
RAISE = f"""
        which = by_name(requests[0], "IN").as_numpy()[0]
        if which >= 0:
            from asyncio import CancelledError
            raise ({", ".join(ERRORS)})[which]("^C")
"""
CODES = (None, 3, "no license")
EXIT = f"""
        which = by_name(requests[0], "IN").as_numpy()[0]
        sys.exit({CODES!r}[which])
"""


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int32)


@pytest.mark.parametrize("how", ["def", "async def"])
async def test_whatever_execute_raises_is_answered_and_the_instance_goes_on(rig: Rig, how: str) -> None:
    instance = await rig.load("odd", SOURCE.format(how=how, statement=RAISE))
    for number, name in enumerate(ERRORS):
        failure = await rig.error(instance, IN=ints(number))
        assert isinstance(failure, BackendFailure)
        assert f"message: {name}: " in failure.message
    assert (await rig.infer(instance, IN=ints(-1))).error is None


@pytest.mark.own_process
async def test_a_model_that_ends_its_process_while_it_executes_is_quoted_with_the_place(rig: Rig) -> None:
    instance = await rig.load("quitter", SOURCE.format(how="def", statement=EXIT))
    for number, (code, status) in enumerate(zip(CODES, (0, 3, 1), strict=True)):
        rig.states.clear()
        failure = await rig.error(instance, IN=ints(number))
        assert isinstance(failure, InstanceDied)
        words = f"is not healthy. It ended with exit status {status}. Last words: SystemExit: {code or ''} at "
        assert words in failure.message
        assert failure.message.endswith("): execute")
        await rig.until_state(InstanceState.READY)


async def test_a_coroutine_that_ends_its_interpreter_is_quoted_with_the_place_and_its_instance_comes_back(
    rig: Rig,
) -> None:
    instance = await rig.load("quitter", SOURCE.format(how="async def", statement=EXIT))
    rig.states.clear()
    failure = await rig.error(instance, IN=ints(1))
    assert isinstance(failure, InstanceDied)
    assert "is not healthy. It ended with exit status 3." in failure.message
    assert "SystemExit: 3 at " in failure.message
    assert failure.message.endswith("): execute")
    await rig.until_state(InstanceState.READY)


@pytest.mark.own_process
async def test_a_model_that_ends_its_process_at_its_import_is_quoted_with_the_place(rig: Rig) -> None:
    with pytest.raises(LoadFailed, match=r"exit status 1\. Last words: SystemExit: no license at .*model.py\(\d+\)"):
        await rig.load("licensed", "sys.exit('no license')")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("raise KeyboardInterrupt('^C')", "KeyboardInterrupt: ^C\n"),
        ("raise RuntimeError('\\ud800')", "RuntimeError: \\ud800\n"),
        ("self.initialize(args)", " more\n"),
    ],
)
async def test_a_load_that_fails_oddly_has_a_reason_that_can_be_sent(rig: Rig, statement: str, words: str) -> None:
    source = f"class TritonPythonModel:\n    def initialize(self, args):\n        {statement}\n"
    with pytest.raises(LoadFailed) as raised:
        await rig.load("bad", source)
    assert words in str(raised.value)
    assert len(str(raised.value).encode()) < 10_000


@pytest.mark.parametrize("value", ["{1, 2}", "np.int64(3)"])
async def test_a_completed_configuration_with_a_value_that_json_lacks_is_refused(rig: Rig, value: str) -> None:
    source = f"""
class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.as_dict()["max_batch_size"] = {value}
        return config
"""
    files = rig.write("auto", source)
    with pytest.raises(LoadFailed, match=r"^auto_complete_config of model 'auto' leaves a value .* give plain bool"):
        await rig.backend.auto_complete(rig.config("auto"), files)
