"""The requests of a batch: taken out of their frame, and answered with what the model has returned or failed with."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from . import logger, parcels
from .answer import Answer
from .errors import TritonErrorCode, TritonModelException
from .request import InferenceRequest
from .response import InferenceResponse, error_entry
from .runtime import RUNTIME

if TYPE_CHECKING:
    from .channel import Channel
    from .frames import Frame
    from .parcels import Entry, Item


class Requests:
    """What the requests of one instance have in common: its channel, name and outputs, and whether it is decoupled."""

    def __init__(self, channel: Channel, instance: str, outputs: frozenset[str], *, decoupled: bool) -> None:
        self._channel = channel
        self._instance = instance
        self._outputs = outputs
        self._decoupled = decoupled
        self._requested: dict[tuple[str, ...], frozenset[str]] = {}

    def cancelled(self, answers: list[Answer]) -> list[Entry]:
        """The answers to requests that nobody waits for any more and that the model has not seen."""
        entries: list[Entry] = []
        for answer in answers:
            answer.close()
            text = "request was cancelled before it was executed"
            entries.append(
                error_entry(answer.id, self._channel.signatures, text, TritonErrorCode.CANCELLED, parcels.ENTRY_FINAL)
            )
        return entries

    def open(self, frame: Frame) -> tuple[list[InferenceRequest], list[Answer]]:
        """The requests of an EXECUTE frame and what becomes of each. Raises FrameError."""
        parcel, memory = self._channel.open_parcel(frame.payload)
        requests: list[InferenceRequest] = []
        answers: list[Answer] = []
        for item in parcel.items:
            answer = self._resumed(item) if item.extras else None
            if answer is None:
                answer = Answer(item.id, self._channel, self._wanted(item.layout.head[2]), decoupled=self._decoupled)
            RUNTIME.answers[item.id] = weakref.ref(answer)
            if RUNTIME.early_cancels and item.id in RUNTIME.early_cancels:
                answer.cancelled = True
            answers.append(answer)
            requests.append(InferenceRequest.received(item, memory, answer))
        if RUNTIME.early_cancels:
            # Ids only grow, and later batches may already wait in the socket. Whoever reads may add to them meanwhile.
            for each in list(RUNTIME.early_cancels):
                if each <= answers[-1].id:
                    RUNTIME.early_cancels.discard(each)
        return requests, answers

    def _resumed(self, item: Item) -> Answer | None:
        """What the model has kept of a request that comes once more, or None."""
        reference = RUNTIME.answers.pop(item.extras.get("earlier", 0), None)
        answer = reference() if reference is not None else None
        if answer is not None:
            answer.resume(item.id)
        return answer

    def _wanted(self, names: tuple[str, ...]) -> frozenset[str]:
        if not names:
            return self._outputs
        found = self._requested.get(names)
        if found is None:
            if len(self._requested) > parcels.Signatures.LIMIT:
                self._requested.clear()
            found = self._requested[names] = frozenset(names)
        return found

    def collect(self, answers: list[Answer], returned: Any) -> list[Entry]:  # noqa: ANN401  the model's business
        """What ``execute`` has returned, as it is sent. Raises TritonModelException where that is no answer."""
        if returned is None:
            return self._rescheduled(answers)
        if self._decoupled:
            what = f"Python model '{self._instance}'"
            msg = f"{what} is using the decoupled mode and the execute function must return None."
            raise TritonModelException(msg)
        if not isinstance(returned, list):
            msg = f"Expected a list in the execute return, found type '{type(returned).__name__}'."
            raise TritonModelException(msg)
        responses: list[Any] = returned  # pyright: ignore[reportUnknownVariableType]
        if len(responses) != len(answers):
            msg = (
                "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
                f"InferenceRequest(s) size is:{len(answers)}, and InferenceResponse(s) size is:{len(responses)}"
            )
            raise TritonModelException(msg)
        pairs = [(answer, response) for answer, response in zip(answers, responses) if response is not None]
        signatures = self._channel.signatures
        entries: list[Entry] = []
        for answer, response in pairs:
            _check_response(answer, response)
            entries.append(response.entry(answer.id, signatures, answer.requested, parcels.ENTRY_FINAL))
        for answer, _ in pairs:
            answer.close()
        return entries + self._rescheduled(answers)

    def _rescheduled(self, answers: list[Answer]) -> list[Entry]:
        """Those of the requests that the model wants once more."""
        again = [answer for answer in answers if answer.rescheduled]
        if not again:
            return []
        layout = self._channel.signatures.layout((), ())
        return [parcels.Entry(answer.id, layout, (), parcels.ENTRY_RESCHEDULED) for answer in again if answer.park()]

    def failures(self, answers: list[Answer], message: str) -> list[Entry]:
        """What the requests without a final response end with where ``execute`` has failed."""
        text = f"Failed to process the request(s) for model '{self._instance}', message: {message}"
        flags = parcels.ENTRY_FINAL | parcels.ENTRY_RAISED
        entries: list[Entry] = []
        for answer in answers:
            if not answer.closed:
                answer.close()
                entries.append(error_entry(answer.id, self._channel.signatures, text, TritonErrorCode.INTERNAL, flags))
        if not entries:
            logger.emit(text, logger.LogLevel.ERROR, __file__, 0)
        return entries


def _check_response(answer: Answer, response: object) -> None:
    """Raise TritonModelException unless it may answer the request."""
    if not isinstance(response, InferenceResponse):
        msg = (
            "Expected an 'InferenceResponse' object in the execute function return list, "
            f"found type '{type(response).__name__}'."
        )
        raise TritonModelException(msg)
    if answer.closed:
        msg = "Expected a None object in the execute function return list for a request that has its response"
        raise TritonModelException(msg)
    if answer.rescheduled and not response.has_error():
        # The misspelt word is part of the sentence that users look for.
        msg = "Expected a None object in the execute function return list for reschduled request"
        raise TritonModelException(msg)
