"""Which server is meant: the one that was named, the one that runs here, the usual address."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from infer.app import finding
from infer.app.failures import CommandError
from infer.app.finding import Wanted
from infer.app.registry import Record, Registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Run(Protocol):
    """Has a server of that name be in the registry until the test ends."""

    def __call__(self, name: str, **told: Any) -> Record: ...


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path)


@pytest.fixture
def run(registry: Registry) -> Iterator[Run]:
    with ExitStack() as stack:

        def running(name: str, **told: Any) -> Record:
            record = Record(name=name, pid=1, **told)
            stack.enter_context(registry.take(name)).publish(record)
            return record

        yield running


def test_an_address_that_was_given_is_the_one(registry: Registry, run: Run) -> None:
    run("default", control_socket="/run/c", operator="127.0.0.1:7002", control_key="ours")
    client = finding.operator_client(Wanted(url="http://host:8002", key="mine"), registry, 7.0)
    assert (client.url, client.key, client.timeout) == ("http://host:8002", "mine", 7.0)


def test_the_default_server_is_found_over_its_socket(registry: Registry, run: Run) -> None:
    run("other", control_socket="/run/o", http="127.0.0.1:1")
    run("default", control_socket="/run/c", http="127.0.0.1:7000")
    assert finding.operator_client(Wanted(), registry).url == "unix:/run/c"


def test_the_only_server_is_found_whatever_its_name(registry: Registry, run: Run) -> None:
    run("serve-17", control_socket="/run/o")
    assert finding.operator_client(Wanted(), registry).url == "unix:/run/o"


def test_a_server_without_a_socket_is_asked_over_its_port_with_its_key(registry: Registry, run: Run) -> None:
    run("default", operator="127.0.0.1:7002", control_key="ours")
    client = finding.operator_client(Wanted(key="mine"), registry)
    assert (client.url, client.key) == ("http://127.0.0.1:7002", "ours")


def test_without_a_server_here_it_is_the_usual_address(registry: Registry) -> None:
    client = finding.operator_client(Wanted(key="mine"), registry)
    assert (client.url, client.key) == ("http://127.0.0.1:8002", "mine")


def test_of_several_none_is_guessed(registry: Registry, run: Run) -> None:
    run("a", control_socket="/run/a", http="127.0.0.1:1")
    run("b", control_socket="/run/b", http="127.0.0.1:2")
    assert finding.operator_client(Wanted(), registry).url == "http://127.0.0.1:8002"


@pytest.mark.parametrize(
    ("page", "why"), [("", "it is starting, and no door of it is open"), ("MODEL …", "runs with --allow-metrics=false")]
)
def test_a_server_that_cannot_be_asked_says_why(registry: Registry, run: Run, page: str, why: str) -> None:
    run("default", start_page=page)
    with pytest.raises(CommandError, match="cannot be asked") as refused:
        finding.operator_client(Wanted(), registry)
    assert why in refused.value.why


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:7002", "http://localhost:7002/", "127.0.0.1:7002", "http://[::1]:7002"]
)
def test_the_key_of_a_server_of_ours_goes_with_its_loopback_address(registry: Registry, run: Run, url: str) -> None:
    run("a", operator="127.0.0.1:7001", control_key="another")
    run("b", operator="127.0.0.1:7002", control_key="ours")
    assert finding.operator_client(Wanted(url=url, key="mine"), registry).key == "ours"


@pytest.mark.parametrize(
    "url",
    ["http://10.0.0.1:7002", "http://host:7002", "http://127.0.0.1:7003", "http://127.0.0.1", "unix:/run/c", "x:y:z"],
)
def test_the_key_of_a_server_of_ours_goes_nowhere_else(registry: Registry, run: Run, url: str) -> None:
    run("b", operator="127.0.0.1:7002", control_key="ours")
    assert finding.operator_client(Wanted(url=url, key="mine"), registry).key == "mine"


def test_a_folder_that_cannot_be_trusted_hides_no_address_and_is_not_passed_over_in_silence(registry: Registry) -> None:
    registry.folder.chmod(0o777)
    assert finding.operator_client(Wanted(url="http://127.0.0.1:7002", key="mine"), registry).key == "mine"
    with pytest.raises(CommandError, match="cannot be trusted"):
        finding.operator_client(Wanted(), registry)


@pytest.mark.parametrize("url", ["", "http://", "http://127.0.0.1:x", "127.0.0.1:99999", "http://[::1"])
def test_what_is_no_address_has_no_port(url: str) -> None:
    assert finding.loopback_port(url) is None
