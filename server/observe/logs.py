"""Log lines: Triton's two text formats and JSON, written by one thread that the serving loop never waits for.

Everything below the logger ``infer`` (and what the HTTP libraries say) goes to one handler, which puts the record
on a queue; the thread ``log-writer`` formats it and writes it. A line is lost only when the queue is full, and then
a line says how many. ``stop`` writes what is queued; the interpreter does it at exit where nobody called it. What was
written last is kept in memory (``log_ring``).

Attach facts to a line with ``extra``: ``request_id`` is shown in front of the message as Triton does; every extra
key becomes a key of a JSON line; ``table`` is text that follows the message unescaped, on lines of its own.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import queue
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TextIO

from ...backends.api.errors import InvalidArgument
from .log_file import LogFile
from .log_ring import LogRing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Loggers whose records are written by the configured service: ours, and the libraries a door stands on.
LOGGERS: Final = ("infer", "uvicorn", "waitress")

#: The formats, by the name that ``--log-format`` takes; ``json`` is our own.
FORMATS: Final = ("default", "ISO8601", "json")

#: Records that may wait for the writer. A console that nobody reads must not fill the memory.
QUEUE_LIMIT: Final = 100_000

#: Lines that are written with one call.
BATCH_LIMIT: Final = 1000

#: Seconds that ``stop`` waits for the writer: a pipe that nobody reads must not hold the process.
STOP_TIMEOUT: Final = 5.0

_STANDARD_ATTRIBUTES: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "table", "taskName"}


def verbose(level: int) -> int:
    """The stdlib level of a verbose message of Triton's level ``level`` (1 is DEBUG, each further one is one below)."""
    return max(1, logging.DEBUG - (level - 1))


@dataclass(frozen=True)
class LogSettings:
    """What is written, how and where. ``log_verbose`` n writes verbose messages of levels up to n; 0 none.

    ``log_file`` None writes to the console: INFO and verbose to stdout, WARNING and ERROR to stderr. ``escape``
    makes the message a JSON string, so that a message with a line break stays one line. A file of
    ``log_file_max_size`` bytes (0: no limit) is put aside, and ``log_file_count`` of those are kept.
    """

    log_info: bool = True
    log_warning: bool = True
    log_error: bool = True
    log_verbose: int = 0
    log_format: str = "default"
    log_file: Path | None = None
    escape: bool = True
    log_file_max_size: int = 0
    log_file_count: int = 3

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if self.log_format not in FORMATS:
            raise InvalidArgument(
                f"invalid argument for log_format: got '{self.log_format}', expected one of {', '.join(FORMATS)}"
            )
        if self.log_verbose < 0:
            raise InvalidArgument(f"invalid argument for log_verbose: got {self.log_verbose}, expected 0 or more")

    @property
    def threshold(self) -> int:
        """The lowest stdlib level that may be written: what is below costs its caller one comparison."""
        if self.log_verbose:
            return verbose(self.log_verbose)
        if self.log_info:
            return logging.INFO
        if self.log_warning:
            return logging.WARNING
        return logging.ERROR if self.log_error else logging.CRITICAL + 1

    def writes(self, level: int) -> bool:
        """Whether a record of this stdlib level is written."""
        if level >= logging.ERROR:
            return self.log_error
        if level >= logging.WARNING:
            return self.log_warning
        if level >= logging.INFO:
            return self.log_info
        return self.log_verbose > 0 and level >= verbose(self.log_verbose)


def model_facts(model: str, version: int | None = None) -> dict[str, Any]:
    """What to attach (``extra``) to a line about a model, or about one version of it."""
    return {"model": model} if version is None else {"model": model, "version": version}


def letter(level: int) -> str:
    """Triton's letter of a stdlib level; verbose lines are I."""
    if level >= logging.ERROR:
        return "E"
    return "W" if level >= logging.WARNING else "I"


def render(record: logging.LogRecord, log_format: str, *, escape: bool = True) -> str:
    """One record as the text of its line (and of the table that follows it), without the last line break.

    The text can always be encoded: what UTF-8 cannot carry is shown as an escape.
    """
    if log_format == "json":
        return _json_line(record)
    seconds = time.gmtime(record.created)
    place = f"{record.process} {record.filename}:{record.lineno}]"
    message = _message(record)
    if escape:
        message = json.dumps(message, ensure_ascii=False)
    if log_format == "ISO8601":
        line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', seconds)} {letter(record.levelno)} {place} {message}"
    else:
        microseconds = int(record.created % 1 * 1_000_000)
        line = f"{letter(record.levelno)}{time.strftime('%m%d %H:%M:%S', seconds)}.{microseconds:06d} {place} {message}"
    table: str | None = getattr(record, "table", None)
    if table is not None:
        line = f"{line}\n{table}"
    return line.encode("utf-8", "backslashreplace").decode("utf-8")


def _message(record: logging.LogRecord) -> str:
    request_id: str | None = getattr(record, "request_id", None)
    message = record.getMessage()
    if request_id is not None:
        message = f"[request id: {request_id or '<id_unknown>'}] {message}"
    return f"{message}\n{record.exc_text}" if record.exc_text else message


def _json_line(record: logging.LogRecord) -> str:
    milliseconds = int(record.created % 1 * 1000)
    fields: dict[str, Any] = {
        "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{milliseconds:03d}Z",
        "level": record.levelname if record.levelno >= logging.INFO else "VERBOSE",
        "message": record.getMessage(),
        "file": record.filename,
        "line": record.lineno,
        "pid": record.process,
        "logger": record.name,
    }
    if record.exc_text:
        fields["exception"] = record.exc_text
    if hasattr(record, "table"):
        fields["table"] = vars(record)["table"]
    for key, value in vars(record).items():
        if key not in _STANDARD_ATTRIBUTES and key not in fields and value is not None:
            fields[key] = value
    return json.dumps(fields, separators=(",", ":"), default=str)


class LogService(logging.Handler):
    """The handler and its writer. Start with ``configure``; any thread may log, change the settings and stop it."""

    def __init__(self, settings: LogSettings) -> None:
        """Open the log file (raises Unavailable naming it where that fails) and start the writer."""
        super().__init__()
        self._settings = settings
        self._file: LogFile | None = None
        if settings.log_file is not None:
            self._file = LogFile(settings.log_file, settings.log_file_max_size, settings.log_file_count)
        self.ring = LogRing()
        self._queue: queue.SimpleQueue[logging.LogRecord | None] = queue.SimpleQueue()
        self._lost = 0
        self._stopped = False
        # A daemon, because the interpreter joins other threads before it closes the handlers at exit.
        self._writer = threading.Thread(target=self._write_queued, name="log-writer", daemon=True)
        self._writer.start()

    @property
    def settings(self) -> LogSettings:
        """The settings now in force."""
        return self._settings

    def update(self, **changes: Any) -> LogSettings:  # noqa: ANN401  a value a field
        """Change the named settings now, for every thread. The file cannot be changed while the server runs.

        Raises InvalidArgument for a value that is not possible; nothing is changed then.
        """
        for name in ("log_file", "log_file_max_size", "log_file_count"):
            if name in changes:
                flag = name.replace("_", "-")
                raise InvalidArgument(f"{name} cannot be changed while the server runs: restart it with --{flag}")
        self._settings = dataclasses.replace(self._settings, **changes)
        self.apply_threshold()
        return self._settings

    def apply_threshold(self) -> None:
        """Give the loggers the level below which they make no record at all."""
        logging.getLogger("infer").setLevel(self._settings.threshold)
        for name in LOGGERS[1:]:
            logging.getLogger(name).setLevel(max(self._settings.threshold, logging.WARNING))

    def handle(self, record: logging.LogRecord) -> bool:
        """Queue a record. Without the handler's lock: the queue is safe, and the loop waits for no other thread."""
        if self._settings.writes(record.levelno):
            self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record, its message fixed now, since the arguments may change before it is written."""
        if self._queue.qsize() >= QUEUE_LIMIT:
            self._lost += 1
            return
        # A copy: other handlers of the same logger see the record as it was made.
        record = copy.copy(record)
        try:
            record.msg, record.args = record.getMessage(), None
        except (TypeError, ValueError, KeyError) as error:
            record.msg, record.args = f"{record.msg!s} (cannot be formatted: {error})", None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        record.exc_info = None
        self._queue.put(record)

    def stop(self) -> None:
        """Take the handler from the loggers, write what is queued, and join the writer. Idempotent."""
        if self._stopped:
            return
        self._stopped = True
        for name in LOGGERS:
            logger = logging.getLogger(name)
            logger.removeHandler(self)
            logger.propagate = True
            logger.setLevel(logging.NOTSET)
        self._queue.put(None)
        self._writer.join(STOP_TIMEOUT)
        if self._file is not None and not self._writer.is_alive():
            self._file.close()

    def close(self) -> None:
        """What the logging module calls at exit."""
        self.stop()
        super().close()

    def _write_queued(self) -> None:
        stopping = False
        while not stopping:
            records, stopping = self._take_batch()
            lost, self._lost = self._lost, 0
            if lost:
                records.append(_lost_lines(lost))
            self._write(records)

    def _take_batch(self) -> tuple[list[logging.LogRecord], bool]:
        """Wait for a record, and take with it what is there: one write for many lines. True: it was the last."""
        records: list[logging.LogRecord] = []
        record = self._queue.get()
        try:
            while record is not None and len(records) < BATCH_LIMIT:
                records.append(record)
                record = self._queue.get_nowait()
        except queue.Empty:
            return records, False
        if record is not None:
            records.append(record)
        return records, record is None

    def _write(self, records: Sequence[logging.LogRecord]) -> None:
        self.ring.extend(records)
        settings = self._settings
        lines: dict[bool, list[str]] = {False: [], True: []}
        for record in records:
            is_error = record.levelno >= logging.WARNING and self._file is None
            lines[is_error].append(render(record, settings.log_format, escape=settings.escape) + "\n")
        # The console's streams are looked up at each write: a host program may replace them.
        self._put(self._file or sys.stdout, lines[False])
        self._put(sys.stderr, lines[True])

    def _put(self, stream: LogFile | TextIO | None, lines: list[str]) -> None:
        if not lines or stream is None:
            return
        try:
            if isinstance(stream, LogFile):
                stream.write(lines)
                return
            stream.write("".join(lines))
            stream.flush()
        except (OSError, ValueError):
            # A closed console or a full disk: serving goes on, and the next line that can be written tells.
            self._lost += len(lines)


def configure(settings: LogSettings) -> LogService:
    """Write the logs of this process as ``settings`` say, in place of what was configured before.

    Returns the running service: ``update`` changes its switches, ``stop`` ends it. Raises Unavailable when the log
    file cannot be opened.
    """
    for handler in logging.getLogger("infer").handlers[:]:
        if isinstance(handler, LogService):
            handler.stop()
    service = LogService(settings)
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.addHandler(service)
        logger.propagate = False
    service.apply_threshold()
    return service


def _lost_lines(count: int) -> logging.LogRecord:
    message = f"{count} log lines before this one were lost: they came faster than they could be written"
    return logging.LogRecord(__name__, logging.WARNING, __file__, 0, message, None, None)
