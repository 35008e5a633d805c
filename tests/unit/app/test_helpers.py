"""This program starts itself again the way it was started."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from infer.app.helpers import helper_command

if TYPE_CHECKING:
    import pytest


def test_an_installed_program_is_a_module_of_its_interpreter_and_the_working_folder_shadows_nothing() -> None:
    assert helper_command("_zygote") == (sys.executable, "-P", "-m", "infer", "_zygote")


def test_a_frozen_binary_is_its_own_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.frozen", True, raising=False)
    monkeypatch.setattr("sys.executable", "/opt/infer")
    assert helper_command("_zygote") == ("/opt/infer", "_zygote")
