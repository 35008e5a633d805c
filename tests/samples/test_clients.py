"""Every script of ``model_repository/clients`` against a real server, as its reader runs it."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.conftest import ServerProcess

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2] / "model_repository"
CLIENTS = sorted(path.stem for path in (REPOSITORY / "clients").glob("*.py"))
OVER_HTTP = frozenset({"bls_sum"})
MODELS = ("bls_sum", "bls_sum_async", "llm_stream", "repeat_int32", "square_int32")


@pytest.fixture(scope="module")
def server(start_module_server: Any) -> ServerProcess:
    chosen = [f"--load-model={name}" for name in MODELS]
    return start_module_server(f"--model-repository={REPOSITORY}", "--model-control-mode=explicit", *chosen)


def run(client: str, url: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(REPOSITORY / "clients" / f"{client}.py"), "--url", url, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def ask(server: ServerProcess) -> Any:
    """Runs a client against the server."""
    found = re.search(r"^grpc +(\S+)", server.log, re.MULTILINE)
    assert found is not None
    grpc, http = found[1], server.http.removeprefix("http://")
    return lambda client, *words: run(client, http if client in OVER_HTTP else grpc, *words)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_prints_what_it_got_and_pass(ask: Any, client: str) -> None:
    done = ask(client)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) > 1
    assert done.stdout.splitlines()[-1] == "PASS"


@pytest.mark.parametrize(
    ("client", "words", "line"),
    [
        ("repeat_int32", ("--values", "9", "-8", "--delay", "1"), "response 1: -8"),
        ("repeat_int32", ("--values",), "PASS"),
        ("square_int32", ("--numbers", "2", "0"), "2: [2, 2]"),
        ("bls_sum", ("--numbers", "10"), "the sum of 10 times 10 is 100"),
        ("bls_sum_async", ("--numbers", "1", "--requests", "3"), "the sum of 3 times 3 is 9"),
        ("llm_stream", ("--max-tokens", "7", "--temperature", "0"), "A request comes "),
        ("llm_stream", ("--max-tokens", "1000000", "--cancel-after", "5"), "5 tokens"),
    ],
)
def test_a_client_asks_for_what_its_options_say(ask: Any, client: str, words: tuple[str, ...], line: str) -> None:
    done = ask(client, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert line in done.stdout.splitlines()


@pytest.mark.parametrize(
    ("client", "words", "reason"),
    [
        ("llm_stream", ("--max-tokens", "0"), "FAIL: MAX_TOKENS must be at least 1, not 0"),
        ("bls_sum", ("--numbers", "-2"), "FAIL: expected 4"),
    ],
)
def test_a_client_that_did_not_get_what_it_wanted_says_so_and_ends_with_one(
    ask: Any, client: str, words: tuple[str, ...], reason: str
) -> None:
    done = ask(client, *words)
    assert done.returncode == 1
    assert reason in done.stdout + done.stderr
    assert "PASS" not in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_without_a_server_says_so_and_ends_with_one(client: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = run(client, f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert done.stderr.startswith("FAIL: ")
    assert "refused" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_server_logs_nothing_but_what_it_always_does(server: ServerProcess, ask: Any) -> None:
    ask("llm_stream", "--max-tokens", "1000000", "--cancel-after", "5")
    assert not re.search(r"^[WE]\d{4} |Traceback", server.log, re.MULTILINE), server.log


def test_the_readme_says_how_each_client_is_run() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert [name for name in CLIENTS if f"clients/{name}.py" not in readme] == []
    assert set(CLIENTS) == set(MODELS)
