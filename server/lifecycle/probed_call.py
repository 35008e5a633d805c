"""A call between models whose target is asked first whether it is ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...backends.api.errors import Cancelled, InferError, Unavailable
from ...backends.api.response import InferenceResponse

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from ...backends.api.call import Call
    from ...backends.api.request import InferenceRequest
    from .models import ServedModel

    Respond = Callable[[InferenceResponse], None]


class ProbedCall:
    """Sends a request on once its target has said that it is ready; answers with an error where it is not.

    Triton asks before every call; here only a target that has ``is_ready`` costs the round trip.
    """

    def __init__(
        self,
        target: ServedModel,
        request: InferenceRequest,
        on_response: Respond,
        submit: Callable[[InferenceRequest, Respond], Call],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._target = target
        self._request = request
        self._on_response = on_response
        self._submit = submit
        self._call: Call | None = None
        self._cancelled = False
        self._task = loop.create_task(self._run())

    def cancel(self) -> None:
        """Ask for the end of the call; its final response still comes."""
        self._cancelled = True
        if self._call is not None:
            self._call.cancel()

    def pause(self) -> None:
        """There is no room for more responses at the moment."""
        if self._call is not None:
            self._call.pause()

    def resume(self) -> None:
        """There is room again."""
        if self._call is not None:
            self._call.resume()

    async def _run(self) -> None:
        ready = await self._target.probe_ready()
        error: InferError
        if self._cancelled:
            error = Cancelled("request was cancelled before it was executed")
        elif not ready:
            error = Unavailable(f"Model '{self._target.name}' version {self._target.version} is not ready")
        else:
            try:
                self._call = self._submit(self._request, self._on_response)
            except InferError as exc:
                error = exc
            else:
                return
        self._on_response(InferenceResponse(error=error))
