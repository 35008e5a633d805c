"""Questions to the server, each with one answer: what a model asks beside its calls to other models."""

from __future__ import annotations

import json
import queue
from typing import Any

from . import frames
from .errors import TritonModelException
from .frames import Kind
from .runtime import RUNTIME


def ask(question: dict[str, Any]) -> Any:  # noqa: ANN401  JSON
    """Send a question and wait for the answer. Any thread.

    Raises TritonModelException with the server's sentence where it refuses, and where there is no server to ask.
    """
    channel = RUNTIME.channel()
    number = next(RUNTIME.call_ids)
    answers: queue.SimpleQueue[bytearray] = queue.SimpleQueue()
    RUNTIME.calls[number] = answers.put
    channel.expect(answers)
    try:
        channel.send(frames.pack_json(Kind.QUERY, number, question))
        payload = answers.get()
    finally:
        RUNTIME.calls.pop(number, None)
        channel.expect_no_more(answers)
    if not payload:
        msg = "the server closed the channel"
        raise TritonModelException(msg)
    answer = json.loads(payload)
    if "error" in answer:
        raise TritonModelException(answer["error"])
    return answer["ok"]
