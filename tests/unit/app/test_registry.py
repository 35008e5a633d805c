"""A server is in the registry for exactly as long as it lives."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from infer.app.failures import CommandError, ExitCode
from infer.app.registry import NameTaken, Record, Registry, parse_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLD = """
import os, sys
from pathlib import Path
from infer.app.registry import Record, Registry
held = Registry(Path(sys.argv[1])).take(sys.argv[2])
held.publish(Record(name=sys.argv[2], pid=os.getpid(), started_at=1.0))
held.control_socket.touch()
print("held", flush=True)
sys.stdin.read()
"""


class Holder:
    """Another process that has a name, and ends as the test wants it to."""

    def __init__(self, folder: Path, name: str) -> None:
        words = [sys.executable, "-c", HOLD, str(folder), name]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"held\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "run")


@pytest.fixture
def holder(registry: Registry) -> Iterator[Holder]:
    holder = Holder(registry.folder, "blue")
    yield holder
    holder.kill()


def record(name: str, **values: object) -> Record:
    return Record(**{"name": name, "pid": os.getpid(), **values})  # pyright: ignore[reportArgumentType]


def test_a_folder_that_is_not_there_has_no_servers_and_stays_that_way(registry: Registry) -> None:
    assert registry.live() == []
    assert registry.find("default") is None
    assert not registry.folder.exists()


def test_what_a_server_tells_of_itself_is_read_back(registry: Registry) -> None:
    told = record(
        "blue",
        version="1.2",
        started_at=17.5,
        http="127.0.0.1:8000",
        operator="127.0.0.1:8002",
        control_key="secret",
        arguments=("--http-port=0", "--id", "x y"),
        folder="/home",
    )
    with registry.take("blue") as held:
        assert registry.find("blue") is None, "it has told nothing yet"
        held.publish(told)
        assert registry.find("blue") == told
        assert registry.live() == [told]
        held.publish(replace(told, start_page="MODEL …"))
        assert registry.live() == [replace(told, start_page="MODEL …")]
    assert registry.live() == []
    assert list(registry.folder.iterdir()) == []


def test_the_record_holds_a_key_and_is_for_its_user_only(registry: Registry) -> None:
    with registry.take("blue") as held:
        held.publish(record("blue", control_key="secret"))
        modes = {path.name: path.stat().st_mode & 0o777 for path in (registry.folder / "blue").iterdir()}
    assert modes == {"lock": 0o600, "server.json": 0o600}
    assert registry.folder.stat().st_mode & 0o777 == 0o700


def test_a_reader_never_sees_half_a_record(registry: Registry) -> None:
    with registry.take("blue") as held:
        held.publish(record("blue"))
        seen: list[Record | None] = []
        over = threading.Event()

        def look() -> None:
            while not over.is_set():
                seen.append(registry.find("blue"))

        reader = threading.Thread(target=look)
        reader.start()
        for size in range(200):
            held.publish(record("blue", arguments=("word",) * size))
        over.set()
        reader.join()
    assert seen
    assert None not in seen


def test_default_comes_first_and_then_the_oldest(registry: Registry) -> None:
    with registry.take("a") as young, registry.take("default") as default, registry.take("z") as old:
        for held, time in ((young, 9.0), (default, 5.0), (old, 1.0)):
            held.publish(record(held.name, started_at=time))
        assert [found.name for found in registry.live()] == ["default", "z", "a"]


def test_a_name_is_held_by_one_process_and_the_refusal_names_it_and_the_ways_out(
    registry: Registry, holder: Holder
) -> None:
    with pytest.raises(NameTaken) as refused:
        registry.take("blue", patience_s=0)
    assert refused.value.why == f"it is process {holder.process.pid}"
    assert "infer down --name blue" in refused.value.fix
    assert "--name NAME" in refused.value.fix
    assert refused.value.code == ExitCode.REFUSED


def test_a_name_that_is_taken_and_not_told_of_yet_is_refused_too(registry: Registry) -> None:
    with registry.take("default"), pytest.raises(NameTaken) as refused:
        registry.take("default", patience_s=0)
    assert refused.value.why == "it is a process that is starting"
    assert "infer down " in refused.value.fix


def test_who_holds_a_name_is_known_by_its_open_lock(registry: Registry, holder: Holder) -> None:
    assert registry.is_held_by("blue", holder.process.pid)
    assert not registry.is_held_by("blue", os.getpid())
    assert not registry.is_held_by("green", holder.process.pid)
    assert not registry.is_held_by("blue", 2**22 + 1)


def test_a_server_waits_for_who_only_looks(registry: Registry, holder: Holder) -> None:
    timer = threading.Timer(0.1, holder.kill)
    timer.start()
    with registry.take("blue", patience_s=20) as held:
        assert held.name == "blue"
    timer.join()


def test_a_server_that_was_killed_is_gone_at_once_and_leaves_nothing(registry: Registry, holder: Holder) -> None:
    assert [found.pid for found in registry.live()] == [holder.process.pid]
    holder.kill()
    assert registry.live() == []
    assert list(registry.folder.iterdir()) == []


def test_a_server_takes_the_name_of_one_that_was_killed_and_nothing_else_of_it(
    registry: Registry, holder: Holder
) -> None:
    holder.kill()
    with registry.take("blue", patience_s=0) as held:
        assert not held.control_socket.exists()
        assert registry.find("blue") is None


def test_a_process_that_got_the_number_of_a_dead_server_is_not_taken_for_it(registry: Registry) -> None:
    with registry.take("blue") as held:
        held.publish(record("blue"))
        text = (registry.folder / "blue" / "server.json").read_text()
    (registry.folder / "blue").mkdir()
    (registry.folder / "blue" / "lock").touch()
    (registry.folder / "blue" / "server.json").write_text(text)
    assert str(os.getpid()) in text, "this very process, which lives"
    assert registry.find("blue") is None
    assert not (registry.folder / "blue").exists()


def test_who_looks_is_not_taken_for_a_server(registry: Registry, holder: Holder) -> None:
    holder.kill()
    found: list[list[Record]] = []
    readers = [threading.Thread(target=lambda: found.append(registry.live())) for _ in range(8)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert found == [[]] * 8


def test_servers_that_start_and_end_while_others_look_never_share_a_name(registry: Registry) -> None:
    inside: list[int] = []
    most: list[int] = []

    def live_for_a_moment() -> None:
        for _ in range(20):
            with registry.take("blue", patience_s=30):
                inside.append(1)
                most.append(len(inside))
                inside.pop()
            registry.live()

    threads = [threading.Thread(target=live_for_a_moment) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 80
    assert max(most) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '"text"',
        "{}",
        '{"name": "blue"}',
        '{"name": "blue", "pid": "7"}',
        '{"name": "blue", "pid": true}',
        '{"name": 7, "pid": 7}',
    ],
)
def test_what_is_no_record_is_none(text: str) -> None:
    assert parse_record(text) is None


def test_a_record_of_another_version_is_read_as_far_as_it_goes() -> None:
    assert parse_record('{"name": "a", "pid": 7, "colour": "red", "arguments": "no list"}') == Record(name="a", pid=7)


def test_a_live_server_with_a_broken_record_is_not_shown_and_not_removed(registry: Registry) -> None:
    with registry.take("blue") as held:
        held.publish(record("blue"))
        path = registry.folder / "blue" / "server.json"
        for broken in (b'{"name": "blue"', b"\xff\xfe", b'{"name": "red", "pid": 7}'):
            path.write_bytes(broken)
            assert registry.live() == []
            assert registry.holds("blue")
        path.unlink()
        path.symlink_to("/etc/hostname")
        assert registry.live() == []


def test_what_is_not_a_server_in_the_folder_is_passed_over(registry: Registry) -> None:
    with registry.take("blue") as held:
        held.publish(record("blue"))
        for name in (".hidden", "a b", "empty"):
            (registry.folder / name).mkdir()
        (registry.folder / "file").touch()
        assert [found.name for found in registry.live()] == ["blue"]


def test_a_lock_that_is_a_symbolic_link_is_not_followed(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    registry.folder.mkdir(mode=0o700)
    (registry.folder / "blue").mkdir()
    (registry.folder / "blue" / "lock").symlink_to(tmp_path / "other")
    with pytest.raises(CommandError, match="cannot be used"):
        registry.take("blue")
    assert not registry.holds("blue")


@pytest.mark.parametrize("name", ["a/b", "..", ""])
def test_a_name_with_a_slash_is_refused_by_every_way_in(registry: Registry, name: str) -> None:
    for way in (registry.take, registry.find):
        with pytest.raises(CommandError, match="cannot be the name of a server"):
            way(name)


def test_a_folder_that_others_may_enter_is_neither_used_nor_believed(registry: Registry) -> None:
    registry.folder.mkdir()
    registry.folder.chmod(0o777)
    for way in (lambda: registry.take("blue"), registry.live, lambda: registry.find("blue")):
        with pytest.raises(CommandError, match="cannot be trusted"):
            way()


def test_a_folder_whose_path_is_too_long_for_a_socket_is_refused_before_it_is_made(tmp_path: Path) -> None:
    registry = Registry(tmp_path / ("x" * 100))
    with pytest.raises(CommandError) as refused:
        registry.take("default")
    assert "that of a Unix socket may have 107" in refused.value.why
    assert not registry.folder.exists()


def test_the_lock_is_not_inherited_by_what_the_server_starts(registry: Registry) -> None:
    held = registry.take("blue")
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    held.release()
    assert not registry.holds("blue")
    child.communicate(b"\n")


def test_release_may_be_called_twice_and_leaves_a_successor_alone(registry: Registry) -> None:
    first = registry.take("blue")
    first.release()
    with registry.take("blue"):
        first.release()
        assert registry.holds("blue")


def test_the_registry_of_a_user_is_the_one_of_the_environment(tmp_path: Path) -> None:
    assert Registry.of_user({"INFER_RUN_DIR": str(tmp_path)}).folder == tmp_path
