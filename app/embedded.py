"""The in-process API: a server without doors, inside your program.

::

    with infer.Server("model_repository") as server:
        result = server.infer("simple", {"INPUT0": a, "INPUT1": b})
        result["OUTPUT0"]

Requests take the same way as those of every door: looked up, checked, queued, executed, counted and cancelled alike.
"""

from __future__ import annotations

import contextlib
import functools
import json
import queue
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..backends.api.errors import Internal, LoadFailed, Unavailable
from ..backends.api.request import InferenceRequest
from ..backends.api.tensor import Tensor
from ..server.lifecycle.overrides import LoadOverrides
from ..server.wire.control import FILE_PREFIX
from .settings import ServerSettings
from .wiring import RunningServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from os import PathLike
    from types import TracebackType
    from typing import Self

    from numpy.typing import NDArray

    from ..backends.api.errors import InferError
    from ..backends.api.request import ParameterValue
    from ..backends.api.response import InferenceResponse
    from ..server.lifecycle.states import IndexEntry
    from ..server.observe.statistics import ModelSnapshot
    from ..server.scheduling.ticket import Ticket

_MAX_WAITING = 32
"""Responses that wait to be taken, from which on their sender is paused."""


@dataclass(frozen=True, slots=True)
class InferResult:
    """One response: outputs by name as numpy arrays (BYTES as object arrays of ``bytes``), and its parameters."""

    outputs: Mapping[str, NDArray[Any]]
    parameters: Mapping[str, ParameterValue]

    def __getitem__(self, name: str) -> NDArray[Any]:
        """The output of that name. Raises KeyError."""
        return self.outputs[name]


class Server:
    """An inference server in this process, without ports.

    :param model_repository: a folder of models, or several.
    :param settings: further settings of ``infer serve``, named as its flags with underscores
        (``model_control_mode="explicit"``, ``load_model=("simple",)``, ``exit_on_error=False`` …).

    Use it as a context manager, or call :meth:`start` and :meth:`stop`. Methods may be called from any thread.
    """

    def __init__(
        self,
        model_repository: str | PathLike[str] | Sequence[str | PathLike[str]],
        **settings: Any,  # noqa: ANN401  the fields of ServerSettings
    ) -> None:
        one = isinstance(model_repository, (str, Path)) or not hasattr(model_repository, "__iter__")
        paths: Any = (model_repository,) if one else model_repository
        self._settings = ServerSettings(model_repository=tuple(Path(path) for path in paths), **settings)
        self._server: RunningServer | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start and load the start-up models.

        Raises LoadFailed where one fails and ``exit_on_error`` is set (the default), and InvalidArgument for a
        repository that is none.
        """
        server = RunningServer(self._settings, doors=False)
        failures = server.start()
        if failures and self._settings.exit_on_error:
            server.stop()
            raise LoadFailed("failed to load all models: " + " ".join(str(error) for error in failures.values()))
        self._server = server

    def stop(self, *, timeout_s: float | None = None) -> None:
        """Wait for requests in flight, at most ``timeout_s`` seconds (``exit_timeout_secs`` for None), and stop."""
        server, self._server = self._server, None
        if server is not None:
            server.drain(self._settings.exit_timeout_secs if timeout_s is None else timeout_s)
            server.stop()

    def infer(  # noqa: PLR0913  a request's parts, all but two of them by name
        self,
        model_name: str,
        inputs: Mapping[str, NDArray[Any] | Tensor],
        *,
        model_version: int | None = None,
        outputs: Sequence[str] = (),
        parameters: Mapping[str, ParameterValue] | None = None,
        request_id: str = "",
        timeout_s: float | None = None,
    ) -> InferResult:
        """Send one request and wait for its response.

        Raises InferError for a refused or failed request, and TimeoutError (the request is cancelled) after
        ``timeout_s`` seconds.
        """
        answer: Future[InferenceResponse] = Future()

        def deliver(response: InferenceResponse) -> None:
            if answer.done() or not answer.set_running_or_notify_cancel():
                response.release()
            else:
                answer.set_result(response)

        request = _request(model_name, inputs, model_version, outputs, parameters, request_id)
        server = self._running
        ticket = _submit(server, request, deliver)
        try:
            return _result(answer.result(timeout_s))
        except TimeoutError:
            if not answer.cancel():
                return _result(answer.result())  # it has come in this very moment
            _cancel(server, ticket)
            raise

    def stream(  # noqa: PLR0913  as infer
        self,
        model_name: str,
        inputs: Mapping[str, NDArray[Any] | Tensor],
        *,
        model_version: int | None = None,
        outputs: Sequence[str] = (),
        parameters: Mapping[str, ParameterValue] | None = None,
        request_id: str = "",
    ) -> ResponseStream:
        """Send one request and give its responses as they come; closing the iterator cancels the request.

        Raises InferError for a refused request, and while iterating where a response is an error.
        """
        request = _request(model_name, inputs, model_version, outputs, parameters, request_id)
        server = self._running
        inbox = _Inbox()
        inbox.ticket = ticket = _submit(server, request, inbox.put)
        return ResponseStream(server, ticket, inbox)

    def load(
        self,
        model_name: str,
        *,
        config: str | Mapping[str, Any] | None = None,
        files: Mapping[str, bytes | PathLike[str]] | None = None,
    ) -> None:
        """Load a model, or what changed of it since it was loaded.

        :param config: a whole configuration (JSON text or its fields) in place of the model's ``config.pbtxt``.
        :param files: the whole content of the model's folder by ``<version>/<path>``, as bytes or as the path of a
            file; the repository is not looked at then, and ``config`` must be given.

        Raises InferError, and OSError for a file that cannot be read; what served before then still does.
        """
        server = self._running
        overrides = _overrides(config, files or {})
        try:
            server.serving_loop.run(server.engine.load(model_name, overrides))
        except CancelledError as exc:
            msg = f"load failed for model '{model_name}': the server was stopped meanwhile"
            raise Unavailable(msg) from exc

    def unload(self, model_name: str) -> None:
        """Stop serving a model and wait until its last request is answered."""
        server = self._running
        server.serving_loop.run(server.engine.unload(model_name))

    @property
    def ready(self) -> bool:
        """Whether the server is ready."""
        return self._server is not None and self._server.engine.ready

    def is_model_ready(self, model_name: str, model_version: int | None = None) -> bool:
        """Whether a model version serves with all its instances, and says so itself where it has ``is_ready``."""
        server = self._running
        return server.serving_loop.run(server.engine.probe_ready(model_name, model_version))

    def index(self) -> tuple[IndexEntry, ...]:
        """The repository index."""
        return self._running.engine.index()

    def statistics(self, model_name: str = "", model_version: str = "") -> tuple[ModelSnapshot, ...]:
        """Pictures of the counters. Raises InvalidArgument for a model that does not serve."""
        return self._running.engine.statistics(model_name, model_version)

    @property
    def _running(self) -> RunningServer:
        if self._server is None:
            msg = "the server is not running; use it as a context manager, or call start() first"
            raise RuntimeError(msg)
        return self._server


def _submit(server: RunningServer, request: InferenceRequest, deliver: Callable[[InferenceResponse], None]) -> Ticket:
    """Hand a request in on the serving loop; the caller's thread waits. Raises InferError where it is refused."""
    accepted: Future[Ticket] = Future()
    server.serving_loop.call_soon(functools.partial(_begin, server, request, deliver, accepted))
    try:
        return accepted.result()
    finally:
        # An exception holds the frames that it went through, and this one the future that holds the exception.
        del accepted


def _begin(
    server: RunningServer,
    request: InferenceRequest,
    deliver: Callable[[InferenceResponse], None],
    accepted: Future[Ticket],
) -> None:
    try:
        accepted.set_result(server.engine.infer(request, deliver))
    except BaseException as exc:  # noqa: BLE001  carried over to the caller's thread
        accepted.set_exception(exc)
    finally:
        # As above.
        del accepted


class _Inbox:
    """The responses of one request that its thread has not taken. Where that is many, their sender is paused."""

    def __init__(self) -> None:
        self.ticket: Ticket | None = None
        self._queue: queue.SimpleQueue[InferenceResponse] = queue.SimpleQueue()

    def put(self, response: InferenceResponse) -> None:
        """Add a response. Serving loop."""
        # Before it is added: who takes it then sees the pause, also where it takes the last one.
        if self._queue.qsize() >= _MAX_WAITING and self.ticket is not None:
            self.ticket.pause()
        self._queue.put(response)

    def take(self, server: RunningServer) -> InferenceResponse:
        """Wait for the next response."""
        response = self._queue.get()
        ticket = self.ticket
        if ticket is not None and ticket.paused and self._queue.qsize() <= _MAX_WAITING // 2:
            _on_loop(server, ticket.resume)
        return response


def _cancel(server: RunningServer, ticket: Ticket) -> None:
    """Cancel a request, wherever it is; of a server that has stopped it has its answer."""
    _on_loop(server, ticket.cancel)


def _on_loop(server: RunningServer, call: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):
        server.serving_loop.call_soon(call)


class ResponseStream:
    """The responses of one request as they come; closed, or dropped, before the last one it cancels the request."""

    def __init__(self, server: RunningServer, ticket: Ticket, inbox: _Inbox) -> None:
        self._server = server
        self._ticket = ticket
        self._inbox = inbox
        self._ended = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> InferResult:
        if self._ended:
            raise StopIteration
        response = self._inbox.take(self._server)
        if response.final:
            self._ended = True
        if response.error is not None:
            self.close()
            raise _taken_error(response)
        if response.final and response.is_empty:
            raise StopIteration
        return _result(response)

    def close(self) -> None:
        """Cancel the request where it is not answered to the end. A second call does nothing."""
        if not self._ended:
            self._ended = True
            _cancel(self._server, self._ticket)

    def __del__(self) -> None:
        self.close()


def _overrides(config: str | Mapping[str, Any] | None, files: Mapping[str, bytes | PathLike[str]]) -> LoadOverrides:
    """What a load is given. The prefix ``file:`` of the protocol's parameters may stand before a path."""
    text = config if config is None or isinstance(config, str) else json.dumps(dict(config))
    contents = {
        path.removeprefix(FILE_PREFIX): content if isinstance(content, bytes) else Path(content).read_bytes()
        for path, content in files.items()
    }
    return LoadOverrides(text, contents)


def _request(  # noqa: PLR0913, PLR0917  the parts of one request
    model_name: str,
    inputs: Mapping[str, NDArray[Any] | Tensor],
    model_version: int | None,
    outputs: Sequence[str],
    parameters: Mapping[str, ParameterValue] | None,
    request_id: str,
) -> InferenceRequest:
    tensors = {name: value if isinstance(value, Tensor) else Tensor.from_numpy(value) for name, value in inputs.items()}
    return InferenceRequest(
        model_name=model_name,
        inputs=tensors,
        model_version=model_version,
        request_id=request_id,
        requested_outputs=tuple(outputs),
        parameters=dict(parameters or {}),
    )


def _result(response: InferenceResponse) -> InferResult:
    """The response as numpy; raises its error where it is one."""
    if response.error is not None:
        raise _taken_error(response)
    try:
        # Copies, because the buffers go back to their owner.
        outputs = {name: tensor.as_numpy().copy() for name, tensor in response.outputs.items()}
    finally:
        response.release()
    return InferResult(outputs, response.parameters)


def _taken_error(response: InferenceResponse) -> InferError:
    """The error of a response that is one, taken out of it.

    Raised, it holds the frames that it goes through, and they the response: only the garbage collector would free them.
    """
    error, response.error = response.error, None
    return error if error is not None else Internal("a response without an error has none to give")
