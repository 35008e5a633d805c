"""The log of a made-up server: lines fall due with its clock, and what happens to models is written between them."""

from __future__ import annotations

from collections import deque
from zlib import crc32

from .snapshot import LogPage, LogRecord

_KEPT = 2000
_EVERY_S = 0.8
_BEFORE = 160
_RANKS = {"VERBOSE": 0, "INFO": 1, "WARNING": 2, "ERROR": 3}
_USUAL = 4
_CHOICES = 23
_LINES = (
    ("INFO", "requests.py:41", "resnet50", "3", "answered a batch of 16 in 4.1 ms"),
    ("INFO", "requests.py:41", "bert_base", "2", "answered a batch of 8 in 6.6 ms"),
    ("VERBOSE", "queue.py:88", "tokenizer", "1", "woke for 2 requests"),
    ("INFO", "http.py:120", "", "", "a client of 10.0.0.17 opened 8 connections"),
    ("WARNING", "queue.py:131", "resnet50", "3", "the queue is full (64): a request was rejected"),
    ("INFO", "requests.py:41", "summarize", "1", "sent 184 responses in 1.7 s"),
    ("ERROR", "worker.py:77", "detector", "1", "the worker of detector_0_1 ended with signal 11 and is started again"),
    ("INFO", "gpu.py:52", "", "", "GPU 0 draws 231 W of 300 W"),
)
"""The first few are the usual ones."""


class DemoLog:
    """Records with numbers, as the operator's door gives them; the oldest are dropped."""

    def __init__(self, start: float, seed: int) -> None:
        """``start`` is the clock's time at the beginning; a few lines are older."""
        self._start = start
        self._seed = seed
        self._ticks = -_BEFORE
        self._records: deque[LogRecord] = deque(maxlen=_KEPT)
        self.last = 0

    def flow(self, now: float) -> None:
        """Write the lines that fell due; those that nobody could read any more are counted only."""
        due = int((now - self._start) / _EVERY_S)
        skipped = max(0, due - _KEPT - self._ticks)
        self._ticks += skipped
        self.last += skipped
        while self._ticks < due:
            self._ticks += 1
            chosen = crc32(f"{self._seed} {self._ticks}".encode()) % _CHOICES
            self._append(
                self._start + self._ticks * _EVERY_S, _LINES[chosen if chosen < len(_LINES) else chosen % _USUAL]
            )

    def event(self, now: float, level: str, text: str, model: str) -> None:
        """Write what happened to a model, behind the lines that were due before it."""
        self.flow(now)
        self._append(now, (level, "loader.py:88", model, "", text))

    def _append(self, moment: float, line: tuple[str, str, str, str, str]) -> None:
        level, file, model, version, text = line
        self.last += 1
        self._records.append(LogRecord(self.last, moment, level, text, file, model, version))

    def page(self, after: int | None, limit: int, level: str, model: str) -> LogPage:
        """Records after a number, or the last ones, of at least a level."""
        fitting = [
            record
            for record in self._records
            if _RANKS[record.level] >= _RANKS.get(level, 0)
            and model in ("", record.model)
            and record.seq > (after or 0)
        ]
        shown = fitting[-limit:] if after is None else fitting[:limit]
        oldest = self._records[0].seq if self._records else 1
        lost = 0 if after is None else max(0, oldest - after - 1)
        return LogPage(self.last, lost, tuple(shown))
