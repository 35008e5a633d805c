"""The model's own word on whether it is ready: ``is_ready``, asked on a thread beside the one that executes."""

from __future__ import annotations

import inspect
import threading
from typing import TYPE_CHECKING, Any

from . import frames
from .border import Border
from .frames import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from .channel import Channel


class Readiness:
    """Asks a model that has ``is_ready``; ``run`` gives the result of a coroutine.

    The server has no more than one probe under way, however long it takes, so each gets a thread of its own.
    """

    def __init__(self, channel: Channel, model: Any, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:  # noqa: ANN401  the model's class
        self._channel = channel
        self._model = model
        self._run = run

    def probe(self, probe_id: int) -> None:
        """Have the model asked and the server told. Reader thread."""
        threading.Thread(target=self._answer, args=(probe_id,), name="infer-readiness", daemon=True).start()

    def _answer(self, probe_id: int) -> None:
        ready = False
        border = Border()
        border.failure = "is_ready ended the thread it was called on"
        try:
            with border:
                said = self._model.is_ready()
                if inspect.iscoroutine(said):
                    said = self._run(said)
                if isinstance(said, bool):
                    ready, border.failure = said, ""
                else:
                    border.failure = f"is_ready must return a bool, got {type(said).__name__}"
        finally:
            answer = {"ready": ready, "reason": border.failure}
            self._channel.send(frames.pack_json(Kind.PROBE, probe_id, answer))
