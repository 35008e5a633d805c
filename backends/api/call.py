"""The port through which a model calls other models (BLS, ensembles). Given at load, never imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from .backend import Batch
    from .request import InferenceRequest
    from .response import InferenceResponse


class Call(Protocol):
    """A call under way."""

    def cancel(self) -> None:
        """Ask for the end of the call; its final response still comes."""
        ...

    def pause(self) -> None:
        """There is no room for more responses at the moment; those that are under way still come."""
        ...

    def resume(self) -> None:
        """There is room again."""
        ...


class OpenCall(Protocol):
    """A call under way, as the instance that made it knows it."""

    call: Call | None
    """What the :class:`ModelCaller` gave, None where it refused."""
    batch: Batch | None
    """The execution that made it, None where that is not known."""
    blocking: bool
    """Whether its instance does nothing else until the first response is there."""
    answered: bool
    """Whether that is there."""


class ModelCaller(Protocol):
    """Calls models of this server. Serving loop only."""

    def call(
        self, request: InferenceRequest, on_response: Callable[[InferenceResponse], None], *, single: bool = False
    ) -> Call:
        """Send a request; ``on_response`` gets every response on the serving loop, exactly one of them final.

        ``single``: the caller takes one response, so a decoupled model is none to call. A request that is refused
        (that, unknown model, wrong shape) raises InferError and gets no response.
        """
        ...
