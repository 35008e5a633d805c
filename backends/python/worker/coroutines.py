"""The event loop of a model whose ``execute`` is a coroutine, on a thread of its own, shared by all its executions."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import InvalidStateError
from typing import TYPE_CHECKING, Any, ClassVar

from .border import Border, describe, exit_words

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

_ENDED = "the event loop that its coroutines run on has ended"
_STOP_S = 1.0
"""How long the model may go on in one turn of its loop when that is stopped; then it is left to itself."""


class CoroutineBorder(Border):
    """The border within a coroutine: what cancels it passes, too."""

    __slots__ = ()

    passes: ClassVar[tuple[type[BaseException], ...]] = (SystemExit, asyncio.CancelledError)


class _Carried(Exception):
    """What a coroutine has raised, on its way past the event loop, which it would end."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class ModelLoop:
    """Runs coroutines of the model. Its thread starts with it.

    ``on_end(reason, error)`` is called there when the loop ends early, with what has ended it, if anything was raised.

    A loop ends early when the model stops it, or when a coroutine raises what ends a thread: nothing that the model
    has begun on it would ever come to an end.
    """

    border = CoroutineBorder

    def __init__(self, on_end: Callable[[str, BaseException | None], None]) -> None:
        self._loop = asyncio.new_event_loop()
        self._on_end = on_end
        self._stopping = False
        self._over = False
        self._waiting: set[Future[Any]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._run, name="infer-model-loop", daemon=True)
        self._thread.start()

    @property
    def ident(self) -> int:
        """Its thread."""
        return self._thread.ident or 0

    def start(self, coroutine: Coroutine[Any, Any, Any], when_cancelled: Callable[[], None] | None = None) -> None:
        """Run a coroutine, which goes on beside the others. Any thread; it sees the caller's context variables.

        It must not raise; ``when_cancelled()`` is called on the loop where it was cancelled, which only the model does.
        """
        self._loop.call_soon_threadsafe(self._create, coroutine, when_cancelled)

    def wait_for(self, coroutine: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401  the result of any coroutine
        """Run a coroutine and wait for its result, raising what it raised. Any thread but the loop's own.

        Raises RuntimeError where the loop ends before.
        """
        waiting = asyncio.run_coroutine_threadsafe(_carried(coroutine), self._loop)
        self._waiting.add(waiting)
        if self._over:
            self._let_go()
        try:
            return waiting.result()
        except _Carried as carried:
            raise carried.error from None
        finally:
            self._waiting.discard(waiting)
            # It holds what it has raised, whose traceback holds this frame.
            del waiting

    def stop(self) -> None:
        """End the loop; what still runs on it is cancelled, and waited for as long as that is worth it. Any thread."""
        if not self._stopping and not self._over:
            self._stopping = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_STOP_S)

    def _create(self, coroutine: Coroutine[Any, Any, Any], when_cancelled: Callable[[], None] | None) -> None:
        task = self._loop.create_task(coroutine)
        # The loop itself knows its tasks only weakly.
        self._tasks.add(task)

        def ended(task: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            if task.cancelled() and when_cancelled is not None:
                when_cancelled()

        task.add_done_callback(ended)

    async def _wind_up(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
        await self._loop.shutdown_default_executor()

    def _let_go(self) -> None:
        """Nothing that a thread waits for comes any more."""
        for waiting in list(self._waiting):
            with contextlib.suppress(InvalidStateError):
                waiting.set_exception(RuntimeError(_ENDED))

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        reason, raised = _ENDED, None
        try:
            self._loop.run_forever()
            if self._stopping:
                self._loop.run_until_complete(self._wind_up())
        except (SystemExit, KeyboardInterrupt) as error:
            # These two asyncio lets out of a task of the model's own.
            raised = error
            reason = exit_words(error) if isinstance(error, SystemExit) else describe(error)
        finally:
            self._over = True
            if not self._stopping:
                self._on_end(reason, raised)
            self._let_go()
            self._loop.close()


async def _carried(coroutine: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401  the result of any coroutine
    try:
        return await coroutine
    except (SystemExit, KeyboardInterrupt) as error:
        raise _Carried(error) from None
