"""The main thread of a worker: bring the model up, execute batch after batch, finalise."""

from __future__ import annotations

import atexit
import contextlib
import gc
import inspect
import json
import os
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from . import frames, logger, parcels, triton_python_backend_utils
from .answer import Answer
from .border import Border
from .channel import Channel
from .errors import TritonErrorCode, TritonModelException
from .frames import Frame, FrameError, Kind
from .loading import ModelLoadError, import_model
from .request import InferenceRequest
from .response import InferenceResponse, error_entry
from .runtime import RUNTIME

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Coroutine

    from .parcels import Entry

_now = time.monotonic_ns
_LONG_NS = 1_000_000
"""An execution that leaves time for the next batch to be cancelled meanwhile."""


class Worker:
    """One model instance in its process."""

    def __init__(self, sock: socket.socket) -> None:
        self._channel = Channel(sock, RUNTIME.on_frame, self._on_end)
        self._instance = ""
        self._decoupled = False
        self._outputs: frozenset[str] = frozenset()
        self._requested: dict[tuple[str, ...], frozenset[str]] = {}
        self._model: Any = None
        self._was_long = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self) -> None:
        """Serve until the server says FINALIZE."""
        sys.modules["triton_python_backend_utils"] = triton_python_backend_utils
        self._channel.start()
        hello = self._channel.next_frame()
        content = json.loads(hello.payload)
        if content["protocol"] != frames.PROTOCOL:
            self._state("FAILED", f"worker speaks protocol {frames.PROTOCOL}, the server {content['protocol']}")
            return
        self._channel.send(frames.pack_json(Kind.HELLO, hello.id, {"protocol": frames.PROTOCOL, "pid": os.getpid()}))
        RUNTIME.model_dir = os.path.dirname(content["model_path"])
        if content["mode"] == "auto_complete":
            self._auto_complete(content)
            return
        RUNTIME.adopt(self._channel)
        if self._initialize(content):
            self._serve()

    def _on_end(self, reason: str) -> None:
        # The main thread may be deep in the model's code; without a server nothing it does can matter.
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"worker of {self._instance or 'a model'} ends: {reason}\n")
            sys.stderr.flush()
        os._exit(1)

    def _state(self, state: str, reason: str = "", **more: Any) -> None:  # noqa: ANN401  JSON
        self._channel.send(frames.pack_json(Kind.STATE, 0, {"state": state, "reason": reason, **more}))

    def _auto_complete(self, content: dict[str, Any]) -> None:
        config = triton_python_backend_utils.ModelConfig(content["args"]["model_config"])
        document: dict[str, Any] = {}
        with Border() as border:
            model = import_model(content["model_path"], content["model_dir"])
            if hasattr(model, "auto_complete_config"):
                config = model.auto_complete_config(config)
                if not isinstance(config, triton_python_backend_utils.ModelConfig):
                    msg = (
                        "auto_complete_config function in model '"
                        f"{content['args']['model_name']}' must return a valid pb.ModelConfig object."
                    )
                    raise ModelLoadError(msg)
            document = config.as_dict()
            json.dumps(document)
        if border.failure:
            self._state("FAILED", border.failure)
        else:
            self._state("CONFIG", document=document)

    def _initialize(self, content: dict[str, Any]) -> bool:
        self._instance = content["args"]["model_instance_name"]
        self._decoupled = content["decoupled"]
        self._outputs = frozenset(content["outputs"])
        with Border() as border:
            model = import_model(content["model_path"], content["model_dir"], content["program"])()
            if hasattr(model, "initialize"):
                model.initialize(content["args"])
            self._model = model
        if border.failure:
            self._state("FAILED", border.failure)
            return False
        RUNTIME.serving = True
        gc.collect()
        self._state("READY")
        return True

    def _serve(self) -> None:
        while True:
            frame = self._channel.next_frame()
            if frame.kind == Kind.EXECUTE:
                self._execute(frame)
                continue
            if json.loads(frame.payload).get("state") == "FINALIZE":
                self._finalize()
                return

    def _execute(self, frame: Frame) -> None:
        if self._was_long:
            # While the last batch executed, this one may have been cancelled.
            self._channel.take_waiting()
        start = _now()
        requests, answers = self._open(frame)
        decoded = executed = _now()
        if answers[0].cancelled and all(answer.cancelled for answer in answers):
            self._channel.send_parcel(Kind.FINAL, frame.id, self._cancelled(answers))
            return
        entries: list[Entry] = []
        with Border() as border:
            returned = self._model.execute(requests)
            if inspect.iscoroutine(returned):
                returned = self._await(returned)
            executed = _now()
            entries = self._collect(answers, returned)
        if border.failure:
            executed = border.failed_at
            entries = self._failures(answers, border.failure)
        self._was_long = executed - decoded > _LONG_NS
        self._channel.send_parcel(Kind.FINAL, frame.id, entries, stamps=(start, decoded, executed, _now()))

    def _cancelled(self, answers: list[Answer]) -> list[Entry]:
        """The answers to requests that nobody waits for any more and that the model has not seen."""
        entries: list[Entry] = []
        for answer in answers:
            answer.close()
            text = "request was cancelled before it was executed"
            entries.append(
                error_entry(answer.id, self._channel.signatures, text, TritonErrorCode.CANCELLED, parcels.ENTRY_FINAL)
            )
        return entries

    def _open(self, frame: Frame) -> tuple[list[InferenceRequest], list[Answer]]:
        try:
            parcel, memory = self._channel.open_parcel(frame.payload)
        except FrameError as exc:
            self._on_end(str(exc))
            raise
        requests: list[InferenceRequest] = []
        answers: list[Answer] = []
        for item in parcel.items:
            answer = Answer(item.id, self._channel, self._wanted(item.layout.head[2]), decoupled=self._decoupled)
            RUNTIME.answers[item.id] = weakref.ref(answer)
            if RUNTIME.early_cancels and item.id in RUNTIME.early_cancels:
                answer.cancelled = True
            answers.append(answer)
            requests.append(InferenceRequest.received(item, memory, answer))
        if RUNTIME.early_cancels:
            # Ids only grow, and later batches may already wait in the socket.
            RUNTIME.early_cancels = {each for each in RUNTIME.early_cancels if each > answers[-1].id}
        return requests, answers

    def _wanted(self, names: tuple[str, ...]) -> frozenset[str]:
        if not names:
            return self._outputs
        found = self._requested.get(names)
        if found is None:
            if len(self._requested) > parcels.Signatures.LIMIT:
                self._requested.clear()
            found = self._requested[names] = frozenset(names)
        return found

    def _collect(self, answers: list[Answer], returned: Any) -> list[Entry]:  # noqa: ANN401  the model's business
        if returned is None:
            return []
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
        return entries

    def _failures(self, answers: list[Answer], message: str) -> list[Entry]:
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

    def _await(self, coroutine: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401  the result of any coroutine
        """The result of a coroutine; a decoupled model's goes on in the background and returns nothing."""
        import asyncio  # noqa: PLC0415  most models, and the zygote, do without

        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="infer-model-loop", daemon=True).start()
        if self._decoupled:
            asyncio.run_coroutine_threadsafe(self._background(coroutine), self._loop)
            return None
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _background(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        with Border() as border:
            await coroutine
        if border.failure:
            text = f"Error encountered in '{self._instance}' while executing: {border.failure}"
            logger.emit(text, logger.LogLevel.ERROR, __file__, 0)

    def _finalize(self) -> None:
        RUNTIME.serving = False
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
        with Border() as border:
            if hasattr(self._model, "finalize"):
                self._model.finalize()
        self._state("FINALIZED", border.failure)


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


def main(sock: socket.socket) -> None:
    """Run a worker to its end; the process is over when this returns."""
    try:
        Worker(sock).run()
    finally:
        # A fork ends without the interpreter's own end, so what the model has registered for it is run here.
        atexit._run_exitfuncs()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
