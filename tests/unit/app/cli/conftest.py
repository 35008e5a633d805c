"""What tests of the commands share: a machine of their own, and a server's door that they script."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from infer.app import standing
from infer.app.registry import Record, Registry
from infer.app.standing import Standing
from infer.tui.client import Client, Reply
from infer.tui.failure import ClientError, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without configuration and servers, in an empty working folder."""
    for name in [name for name in os.environ if name.startswith(("INFER_", "XDG_"))]:
        monkeypatch.delenv(name)
    folder = tmp_path / "home"
    (folder / "work").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("INFER_RUN_DIR", str(folder / "run"))
    monkeypatch.setenv("INFER_STATE_DIR", str(folder / "state"))
    monkeypatch.chdir(folder / "work")
    return folder


@dataclass
class Door:
    """An operator's door: its models, what was asked of it, and what it does then.

    ``on_change`` is called with verb and name of each change, on the thread that asks; it may raise or block.
    """

    index: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    documents: dict[str, Any] = field(default_factory=dict[str, Any])
    overview: dict[str, Any] | None = None
    changes: list[tuple[str, str, Any]] = field(default_factory=list[tuple[str, str, Any]])
    asked: list[str] = field(default_factory=list[str])
    """Addresses that were asked, each time."""

    on_change: Callable[[str, str], None] = lambda _verb, _name: None

    def set_state(self, name: str, state: str, reason: str = "") -> None:
        """All versions of a model get a state."""
        for row in self.index:
            if row["name"] == name:
                row.update(state=state, reason=reason)

    def post(self, client: Client, path: str, document: Any = None) -> Any:
        self.asked.append(client.url)
        if path == "/v2/repository/index":
            wanted = bool((document or {}).get("ready"))
            return [dict(row) for row in self.index if not wanted or row.get("state") == "READY"]
        name, verb = path.split("/")[-2:]
        self.changes.append((verb, name, document))
        self.on_change(verb, name)
        return {}

    def get(self, client: Client, path: str) -> Any:
        self.asked.append(client.url)
        if path == "/v2/operator/overview":
            if self.overview is None:
                raise ClientError("no overview", "not found", kind=Kind.NOT_FOUND)
            return self.overview
        if path not in self.documents:
            raise ClientError(f"the server refused {path}", "not found", kind=Kind.NOT_FOUND)
        return self.documents[path]

    def request(self, client: Client, _method: str, path: str, *_rest: Any) -> Reply:
        self.asked.append(client.url)
        name = path.split("/")[3]
        ready = any(row["name"] == name and row.get("state") == "READY" for row in self.index)
        return Reply(200 if ready else 400, {}, b"" if ready else json.dumps({"error": "not ready"}).encode())


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Door:
    """Every client talks to this door, whatever its address."""
    made = Door()
    monkeypatch.setattr(Client, "post", lambda *words: made.post(*words))  # noqa: PLW0108  a test may put another in its place
    monkeypatch.setattr(Client, "get", lambda *words: made.get(*words))  # noqa: PLW0108
    monkeypatch.setattr(Client, "request", lambda *words: made.request(*words))  # noqa: PLW0108
    return made


@pytest.fixture
def registry(home: Path) -> Registry:
    """The servers of that home."""
    return Registry(home / "run")


@pytest.fixture
def run(registry: Registry) -> Iterator[Callable[..., Record]]:
    """Registers servers, as this process, until the test ends."""
    with contextlib.ExitStack() as stack:

        def running(name: str, **told: Any) -> Record:
            record = Record(name=name, pid=os.getpid(), control_socket="/s", **told)
            stack.enter_context(registry.take(name)).publish(record)
            return record

        yield running


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Standing]:
    """How servers stand, by name; one that is not in it does not answer."""
    known: dict[str, Standing] = {}
    monkeypatch.setattr(standing, "look", lambda record, _timeout: known.get(record.name, Standing(record, None, "no")))
    return known
