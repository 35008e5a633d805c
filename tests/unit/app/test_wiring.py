"""The parts of a server are made as the settings and the environment say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infer.app.settings import ServerSettings
from infer.app.wiring import DELAY_SCHEDULER, build, helper_command
from infer.backends.api.errors import InvalidArgument

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("text", ["many", "-1", "1.5", ""])
def test_a_delay_of_the_scheduler_that_is_no_number_of_requests_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv(DELAY_SCHEDULER, text)
    with pytest.raises(InvalidArgument, match=f"TRITONSERVER_DELAY_SCHEDULER={text} is not a number of requests"):
        build(ServerSettings(model_repository=(tmp_path,)))


def test_a_frozen_binary_is_its_own_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.frozen", True, raising=False)
    monkeypatch.setattr("sys.executable", "/opt/infer")
    assert helper_command("_zygote") == ("/opt/infer", "_zygote")
