"""What a tab offers, however the server is."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from infer.app.cli import completion

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.unit.app.cli.conftest import Door


def offered(incomplete: str = "", **params: Any) -> list[str]:
    return completion.model_names(SimpleNamespace(params=params), [], incomplete)


def test_models_are_offered_by_their_beginning_each_once(door: Door) -> None:
    door.index = [{"name": "simple", "version": "1"}, {"name": "simple", "version": "2"}, {"name": "digits"}]
    assert offered() == ["simple", "digits"]
    assert offered("si") == ["simple"]
    assert offered("x") == []


def test_the_server_on_the_line_is_asked(door: Door) -> None:
    offered(url="http://elsewhere:1")
    offered(url="http://inference:8000", grpc_url=None)
    assert door.asked == ["http://elsewhere:1", "http://127.0.0.1:8002"]


def test_nobody_there_is_no_offer_and_no_word(capfd: pytest.CaptureFixture[str]) -> None:
    assert offered(url="http://127.0.0.1:9") == []
    assert offered(context="nobody") == []
    assert capfd.readouterr() == ("", "")


def test_an_answer_that_is_nonsense_is_no_offer(door: Door, capfd: pytest.CaptureFixture[str]) -> None:
    door.index = [{"nothing": 1}]
    assert offered() == []
    assert capfd.readouterr() == ("", "")


def test_a_broken_configuration_is_no_offer(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (home / "work" / "infer.toml").write_text("nonsense = = 3")
    assert offered() == []
    (home / ".config" / "infer").mkdir(parents=True)
    (home / ".config" / "infer" / "config.toml").write_text("nonsense = = 3")
    assert completion.context_names(None, [], "") == []
    assert capfd.readouterr() == ("", "")


def test_a_server_that_does_not_answer_costs_a_third_of_a_second() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.perf_counter()
        assert offered(url=f"http://127.0.0.1:{silent.getsockname()[1]}") == []
        assert time.perf_counter() - began < 20 * completion.LIMIT_S, "a command would wait five times as long"


def test_contexts_are_offered(home: Path) -> None:
    (home / ".config" / "infer").mkdir(parents=True)
    (home / ".config" / "infer" / "config.toml").write_text('[contexts.lab]\nurl = "x"\n[contexts.prod]\nurl = "y"\n')
    assert completion.context_names(None, [], "") == ["lab", "prod"]
    assert completion.context_names(None, [], "p") == ["prod"]
