"""What the door uses of grpc's context of a call, and the two shapes in which a call ends early, told apart once."""

from __future__ import annotations

import asyncio
import functools
import logging
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

import grpc
from grpc import aio

from ...backends.api.errors import InferError
from .errors import BROKEN, STATUS
from .parameters import clean

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = logging.getLogger("infer.grpc")

END: Any = cast("Any", aio).EOF
"""What :meth:`Context.read` gives where the client sends nothing more."""

GONE = aio.BaseError
"""What grpc raises where a call is used after its end. A client's cancel arrives as a CancelledError, or as one of
these where it comes while a message is on its way."""


class Context(Protocol):
    """A call, as its handler sees it. Messages are bytes."""

    async def read(self) -> Any:  # noqa: ANN401  bytes, or END
        """The next message of the client, or END."""
        ...

    async def write(self, message: bytes) -> None:
        """Send a message; returns when grpc has taken it, which a client that does not read delays."""
        ...

    async def abort(self, code: Any, details: str = ...) -> NoReturn:  # noqa: ANN401  a grpc.StatusCode
        """End the call with a status."""
        ...

    def invocation_metadata(self) -> Any:  # noqa: ANN401  pairs of key and value
        """The metadata that the client sent."""
        ...

    async def send_initial_metadata(self, metadata: Any) -> None:  # noqa: ANN401  pairs of key and value
        """Send what stands before the first message."""
        ...

    def set_compression(self, compression: Any) -> None:  # noqa: ANN401  a grpc.Compression
        """Compress the messages of this call."""
        ...


async def fail(context: Context, error: InferError) -> NoReturn:
    """End the call with a failure's status and sentence."""
    await context.abort(STATUS[error.code], clean(str(error)))


def guarded(name: str, handler: Callable[[Any, Context], Awaitable[Any]]) -> Callable[[Any, Context], Awaitable[Any]]:
    """A handler that ends its call in a status whatever happens: a failure's own, or INTERNAL for a fault of ours."""

    @functools.wraps(handler)
    async def call(request: Any, context: Context) -> Any:  # noqa: ANN401  bytes
        try:
            return await handler(request, context)
        except InferError as error:
            await fail(context, error)
        except (asyncio.CancelledError, aio.AbortError):
            raise
        except GONE as exc:
            raise asyncio.CancelledError from exc
        except Exception:
            log.exception("%s failed", name)
            await context.abort(grpc.StatusCode.INTERNAL, BROKEN)

    return call
