"""The main thread of a worker: bring the model up, execute batch after batch, finalise."""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import inspect
import json
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from . import c_python_backend_utils, frames, logger, names, triton_python_backend_utils
from .border import Border, exit_status
from .channel import Channel
from .frames import Frame, FrameError, Kind
from .loading import ModelLoadError, import_model
from .readiness import Readiness
from .requests import Requests
from .runtime import BATCH, RUNTIME

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine

    from .answer import Answer
    from .coroutines import ModelLoop
    from .parcels import Entry
    from .request import InferenceRequest

_now = time.monotonic_ns
_LONG_NS = 1_000_000
"""An execution that leaves time for the next batch to be cancelled meanwhile."""


class _Execution:
    """One batch that the model executes."""

    __slots__ = ("answers", "decoded", "entries", "executed", "id", "start")

    def __init__(self, batch_id: int, answers: list[Answer], start: int) -> None:
        self.id = batch_id
        self.answers = answers
        self.entries: list[Entry] = []
        self.start = start
        self.decoded = self.executed = _now()


class Worker:
    """One model instance in its process."""

    def __init__(self, connect: Callable[[Callable[[Frame], None], Callable[[str], None]], Channel]) -> None:
        """``connect(on_frame, on_end)`` makes the channel."""
        self._channel = connect(RUNTIME.on_frame, self._on_end)
        self._instance = ""
        self._decoupled = False
        self._requests = Requests(self._channel, "", frozenset(), decoupled=False)
        self._model: Any = None
        self._was_long = False
        self._overlaps = False
        self._thread = threading.get_ident()
        self._loop: ModelLoop | None = None
        self._loop_lock = threading.Lock()

    def run(self) -> None:
        """Serve until the server says FINALIZE."""
        self._publish()
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
        self._adopt()
        if self._initialize(content):
            self._serve()

    def _publish(self) -> None:
        sys.modules["triton_python_backend_utils"] = triton_python_backend_utils
        sys.modules["c_python_backend_utils"] = c_python_backend_utils

    def _adopt(self) -> None:
        RUNTIME.adopt(self._channel)

    def _import(self, content: dict[str, Any]) -> Any:  # noqa: ANN401  the model's class
        return import_model(content["model_path"], content["model_dir"], content["program"], bare=content["bare"])

    def _came_up(self) -> None:
        gc.collect()

    def _on_end(self, reason: str, error: BaseException | None = None) -> None:
        # The main thread may be deep in the model's code; without a server nothing it does can matter.
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"worker of {self._instance or 'a model'} ends: {reason}\n")
            sys.stderr.flush()
        os._exit(exit_status(error) if isinstance(error, SystemExit) else 1)

    def _state(self, state: str, reason: str = "", **more: Any) -> None:  # noqa: ANN401  JSON
        self._channel.send(frames.pack_json(Kind.STATE, 0, {"state": state, "reason": reason, **more}))

    def _model_class(self, content: dict[str, Any]) -> Any:  # noqa: ANN401  the model's class
        self._state("PHASE", phase="import")
        return self._import(content)

    def _auto_complete(self, content: dict[str, Any]) -> None:
        config = triton_python_backend_utils.ModelConfig(content["args"]["model_config"])
        document: dict[str, Any] = {}
        with Border() as border:
            model = self._model_class(content)
            if hasattr(model, "auto_complete_config"):
                self._state("PHASE", phase="auto_complete")
                config = model.auto_complete_config(config)
                if not isinstance(config, triton_python_backend_utils.ModelConfig):
                    msg = (
                        "auto_complete_config function in model '"
                        f"{content['args']['model_name']}' must return a valid pb.ModelConfig object."
                    )
                    raise ModelLoadError(msg)
            document = _checked(config, content["args"]["model_name"])
        if border.failure:
            self._state("FAILED", border.failure)
        else:
            self._state("CONFIG", document=document)

    def _initialize(self, content: dict[str, Any]) -> bool:
        self._instance = content["args"]["model_instance_name"]
        self._decoupled = content["decoupled"]
        self._requests = Requests(
            self._channel, self._instance, frozenset(content["outputs"]), decoupled=self._decoupled
        )
        with Border() as border:
            model_class = self._model_class(content)
            names.check_model(model_class, content["model_path"])
            model = model_class()
            if hasattr(model, "initialize"):
                self._state("PHASE", phase="initialize")
                model.initialize(content["args"])
            self._model = model
        if border.failure:
            self._state("FAILED", border.failure)
            return False
        coroutine = inspect.iscoroutinefunction(getattr(self._model, "execute", None))
        if coroutine:
            # None of the model's code runs on this thread any more.
            self._channel.always_read = True
            RUNTIME.busy_thread = self._model_loop().ident
            self._overlaps = not self._decoupled
        RUNTIME.serving = True
        self._came_up()
        is_ready = callable(getattr(self._model, "is_ready", None))
        if is_ready:
            RUNTIME.on_probe = Readiness(
                self._channel, self._model, lambda said: self._model_loop().wait_for(said)
            ).probe
            # Probes come while the model executes, too: from here on somebody else than its thread always reads.
            self._channel.expect(RUNTIME.on_probe)
        self._state("READY", coroutine=coroutine, is_ready=is_ready)
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
        try:
            requests, answers = self._requests.open(frame)
        except FrameError as exc:
            self._on_end(str(exc))
            raise
        if answers[0].cancelled and all(answer.cancelled for answer in answers):
            self._channel.send_parcel(Kind.FINAL, frame.id, self._requests.cancelled(answers))
            return
        BATCH.set(frame.id)
        execution = _Execution(frame.id, answers, start)
        if self._overlaps:
            cancelled = "CancelledError: the coroutine was cancelled"
            self._model_loop().start(self._overlap(execution, requests), lambda: self._end(execution, cancelled))
            return
        if not self._channel.always_read:
            RUNTIME.busy_thread = self._thread
        with Border() as border:
            returned = self._model.execute(requests)
            if inspect.iscoroutine(returned):
                returned = self._await(returned)
            execution.executed = _now()
            execution.entries = self._requests.collect(answers, returned)
        if not self._channel.always_read:
            RUNTIME.busy_thread = 0
        self._end(execution, border.failure, border.failed_at)
        self._was_long = execution.executed - execution.decoded > _LONG_NS

    async def _overlap(self, execution: _Execution, requests: list[InferenceRequest]) -> None:
        """A batch of a model whose ``execute`` is a coroutine: it runs beside others and ends when it ends."""
        with self._model_loop().border() as border:
            returned = await self._model.execute(requests)
            execution.executed = _now()
            execution.entries = self._requests.collect(execution.answers, returned)
        self._end(execution, border.failure, border.failed_at)

    def _end(self, execution: _Execution, failure: str, failed_at: int = 0) -> None:
        """Answer a batch whose execution is over with what it has made, or with its failure."""
        if failure:
            execution.executed = failed_at or _now()
            execution.entries = self._requests.failures(execution.answers, failure)
        stamps = (execution.start, execution.decoded, execution.executed, _now())
        self._channel.send_parcel(Kind.FINAL, execution.id, execution.entries, stamps=stamps)

    def _await(self, coroutine: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401  the result of any coroutine
        """The result of a coroutine; a decoupled model's goes on in the background and returns nothing."""
        loop = self._model_loop()
        if self._decoupled:
            loop.start(self._background(coroutine))
            return None
        RUNTIME.busy_thread = loop.ident
        return loop.wait_for(coroutine)

    def _model_loop(self) -> ModelLoop:
        """The one loop of this worker, on a thread of its own from its first use on."""
        from .coroutines import ModelLoop  # noqa: PLC0415  most models, and the zygote, do without asyncio

        with self._loop_lock:
            if self._loop is None:
                self._loop = ModelLoop(self._on_end)
        return self._loop

    async def _background(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        with self._model_loop().border() as border:
            await coroutine
        if border.failure and not RUNTIME.finalizing:
            text = f"Error encountered in '{self._instance}' while executing: {border.failure}"
            logger.emit(text, logger.LogLevel.ERROR, __file__, 0)

    def _finalize(self) -> None:
        RUNTIME.serving = False
        RUNTIME.finalizing = True
        if self._loop is not None:
            self._loop.stop()
        with Border() as border:
            if hasattr(self._model, "finalize"):
                self._model.finalize()
        self._state("FINALIZED", border.failure)


def _checked(config: triton_python_backend_utils.ModelConfig, name: str) -> dict[str, Any]:
    """The document of a configuration, which the model may have put anything into. Raises ModelLoadError."""
    document = config.as_dict()
    try:
        json.dumps(document)
    except (TypeError, ValueError, RecursionError) as exc:
        msg = (
            f"auto_complete_config of model '{name}' leaves a value in the configuration that JSON does not have: "
            f"{exc}; give plain bool, int, float, str, list and dict"
        )
        raise ModelLoadError(msg) from exc
    return document


def main(sock: socket.socket) -> None:
    """Run a worker to its end; the process is over when this returns."""
    try:
        Worker(functools.partial(Channel, sock)).run()
    finally:
        # First, while what ends it still holds the requests: they fail with that, not for having been dropped.
        RUNTIME.leave()
        # A fork ends without the interpreter's own end, so what the model has registered for it is run here.
        atexit._run_exitfuncs()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
