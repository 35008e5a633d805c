from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from infer.backends.api.errors import InvalidArgument, Unavailable
from infer.server.observe import logs
from infer.server.observe.logs import LogService, LogSettings, configure, render, verbose

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

log = logging.getLogger("infer.test")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


@pytest.fixture(autouse=True)
def _stopped() -> Iterator[None]:
    yield
    for handler in logging.getLogger("infer").handlers[:]:
        if isinstance(handler, LogService):
            handler.stop()


def written(service: LogService, file: Path) -> list[str]:
    service.stop()
    return file.read_text().splitlines()


def test_a_default_line_is_tritons(file: Path) -> None:
    service = configure(LogSettings(log_file=file))
    log.info("loading: %s:%d", "simple", 1)
    (line,) = written(service, file)
    pattern = rf'^I\d{{4}} \d\d:\d\d:\d\d\.\d{{6}} {os.getpid()} test_logs\.py:\d+\] "loading: simple:1"$'
    assert re.match(pattern, line), line


def test_an_iso8601_line_is_tritons(file: Path) -> None:
    service = configure(LogSettings(log_file=file, log_format="ISO8601"))
    log.error("no")
    (line,) = written(service, file)
    assert re.match(rf'^\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ E {os.getpid()} test_logs\.py:\d+\] "no"$', line), line


def test_a_json_line_is_one_object_with_what_was_attached(file: Path) -> None:
    service = configure(LogSettings(log_file=file, log_format="json"))
    log.warning("slow\nmodel", extra={"request_id": "7", "model": "simple", "took_ms": 5})
    (line,) = written(service, file)
    entry = json.loads(line)
    assert re.match(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$", entry.pop("time"))
    assert entry.pop("line") > 0
    assert entry == {
        "level": "WARNING",
        "message": "slow\nmodel",
        "file": "test_logs.py",
        "pid": os.getpid(),
        "logger": "infer.test",
        "request_id": "7",
        "model": "simple",
        "took_ms": 5,
    }


def test_the_request_id_stands_in_front_of_the_message(file: Path) -> None:
    service = configure(LogSettings(log_file=file))
    log.info("failed", extra={"request_id": "abc"})
    log.info("failed", extra={"request_id": ""})
    lines = written(service, file)
    assert lines[0].endswith('"[request id: abc] failed"')
    assert lines[1].endswith('"[request id: <id_unknown>] failed"')


def test_a_message_with_a_line_break_stays_one_line_unless_escaping_is_off(file: Path) -> None:
    service = configure(LogSettings(log_file=file))
    log.info('a "b"\nc é')
    assert written(service, file)[0].endswith(r'"a \"b\"\nc é"')
    service = configure(LogSettings(log_file=file, escape=False))
    log.info("a\nb")
    assert written(service, file)[-1] == "b"


def test_a_table_follows_its_heading_unescaped(file: Path) -> None:
    service = configure(LogSettings(log_file=file))
    log.info("Models", extra={"table": "| a |\n| b |"})
    lines = written(service, file)
    assert lines[0].endswith('"Models"')
    assert lines[1:] == ["| a |", "| b |"]


def test_an_exception_is_on_the_line_of_its_message(file: Path) -> None:
    service = configure(LogSettings(log_file=file))
    try:
        int("why")
    except ValueError:
        log.exception("it failed")
    (line,) = written(service, file)
    assert r"it failed\nTraceback" in line
    assert "ValueError: invalid literal" in line


def test_what_utf8_cannot_carry_is_shown_as_an_escape(file: Path) -> None:
    service = configure(LogSettings(log_file=file))
    log.info("bad \udcff name")
    assert r"bad \udcff name" in written(service, file)[0]


def test_a_message_whose_arguments_do_not_fit_is_still_written(file: Path) -> None:
    service = configure(LogSettings(log_file=file))
    log.info("%d items", "no")
    assert "%d items (cannot be formatted" in written(service, file)[0]


def test_the_arguments_are_read_when_the_line_is_logged(file: Path) -> None:
    service = configure(LogSettings(log_file=file))
    items = [1]
    log.info("%s", items)
    items.append(2)
    assert written(service, file)[0].endswith('"[1]"')


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "IWE"),
        ({"log_info": False}, "WE"),
        ({"log_warning": False}, "IE"),
        ({"log_error": False}, "IW"),
        ({"log_verbose": 1}, "1IWE"),
        ({"log_verbose": 2}, "21IWE"),
        ({"log_info": False, "log_verbose": 1}, "1WE"),
        ({"log_info": False, "log_warning": False, "log_error": False}, ""),
    ],
)
def test_each_level_has_a_switch_of_its_own(file: Path, settings: dict[str, bool], expected: str) -> None:
    service = configure(LogSettings(log_file=file, escape=False, **settings))
    for level, message in (
        (verbose(2), "2"),
        (verbose(1), "1"),
        (logging.INFO, "I"),
        (logging.WARNING, "W"),
        (logging.ERROR, "E"),
    ):
        log.log(level, message)
    assert "".join(line[-1] for line in written(service, file)) == expected


def test_switches_change_while_it_runs(file: Path) -> None:
    service = configure(LogSettings(log_file=file, escape=False))
    log.debug("one")
    service.update(log_verbose=1, log_format="ISO8601")
    log.debug("two")
    service.update(log_verbose=0, log_info=False)
    log.info("three")
    assert not log.isEnabledFor(logging.INFO)
    (line,) = written(service, file)
    assert line.endswith("two")


def test_an_impossible_setting_changes_nothing(file: Path) -> None:
    service = configure(LogSettings(log_file=file))
    with pytest.raises(InvalidArgument, match="got 'iso', expected one of default, ISO8601, json"):
        service.update(log_format="iso")
    with pytest.raises(InvalidArgument, match="log_verbose: got -1"):
        service.update(log_verbose=-1)
    with pytest.raises(InvalidArgument, match="log_file cannot be changed"):
        service.update(log_file=None)
    assert service.settings == LogSettings(log_file=file)


def test_the_console_is_split_by_level(capsys: pytest.CaptureFixture[str]) -> None:
    service = configure(LogSettings(log_verbose=1))
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        log.log(level, "line")
    service.stop()
    captured = capsys.readouterr()
    assert [line[0] for line in captured.out.splitlines()] == ["I", "I"]
    assert [line[0] for line in captured.err.splitlines()] == ["W", "E"]


def test_a_log_file_is_appended_to(file: Path) -> None:
    for message in ("one", "two"):
        service = configure(LogSettings(log_file=file))
        log.info(message)
        service.stop()
    assert len(file.read_text().splitlines()) == 2


def test_a_log_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=f"log file '{tmp_path}' cannot be opened"):
        configure(LogSettings(log_file=tmp_path))


def test_nothing_is_lost_at_the_end_and_the_writer_is_joined(file: Path) -> None:
    service = configure(LogSettings(log_file=file))
    threads = [threading.Thread(target=lambda: [log.info("line") for _ in range(2000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(written(service, file)) == 8000
    assert "log-writer" not in {thread.name for thread in threading.enumerate()}
    service.stop()


def test_an_interpreter_that_ends_without_stop_writes_everything(file: Path) -> None:
    script = (
        "import logging, pathlib, sys\n"
        "from infer.server.observe.logs import LogSettings, configure\n"
        "configure(LogSettings(log_file=pathlib.Path(sys.argv[1])))\n"
        "[logging.getLogger('infer.x').info('line') for _ in range(3000)]\n"
    )
    subprocess.run([sys.executable, "-c", script, str(file)], check=True, timeout=60)
    assert len(file.read_text().splitlines()) == 3000


def test_configuring_again_replaces_what_was_there(file: Path) -> None:
    first = configure(LogSettings(log_file=file))
    second = configure(LogSettings(log_file=file))
    log.info("once")
    assert len(written(second, file)) == 1
    assert first not in logging.getLogger("infer").handlers


def test_lines_beyond_the_limit_are_counted_in_a_line(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = configure(LogSettings(log_file=file, escape=False))
    monkeypatch.setattr(logs, "QUEUE_LIMIT", 0)
    log.info("lost")
    log.info("lost")
    monkeypatch.setattr(logs, "QUEUE_LIMIT", 10)
    log.info("kept")
    lines = written(service, file)
    assert [line.rpartition("] ")[2] for line in lines] == [
        "kept",
        "2 log lines before this one were lost: they came faster than they could be written",
    ]


def test_a_console_that_is_gone_does_not_end_the_writer(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        def write(self, text: str) -> None:
            failed.set()
            raise BrokenPipeError

        def flush(self) -> None: ...

    failed = threading.Event()
    service = configure(LogSettings())
    monkeypatch.setattr(sys, "stdout", Gone())
    log.info("nobody reads this")
    assert failed.wait(10)
    with file.open("w") as back:
        monkeypatch.setattr(sys, "stdout", back)
        log.info("back")
        service.stop()
    assert "back" in file.read_text()


def test_other_handlers_see_the_record_as_it_was_made(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    service = configure(LogSettings(log_file=file))
    logging.getLogger("infer").addHandler(caplog.handler)
    log.info("%d", 5)
    logging.getLogger("infer").removeHandler(caplog.handler)
    service.stop()
    assert caplog.records[-1].args == (5,)


def test_an_http_library_speaks_through_the_same_lines(file: Path) -> None:
    service = configure(LogSettings(log_file=file))
    logging.getLogger("uvicorn.error").warning("odd request")
    logging.getLogger("uvicorn.error").info("started")
    lines = written(service, file)
    assert len(lines) == 1
    assert lines[0].startswith("W")


def test_a_record_is_rendered_without_a_service() -> None:
    record = logging.LogRecord("infer", logging.INFO, "/x/file.py", 12, "m", None, None)
    record.created = 0.5
    assert render(record, "default").startswith("I0101 00:00:00.500000")
    assert render(record, "default").endswith('file.py:12] "m"')
