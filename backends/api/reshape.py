"""Between the shape that clients see (``dims``) and the one the backend sees (``reshape``). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .tensor import Shape


def reshaped(shape: Shape, before: Sequence[int], after: Sequence[int], *, batching: bool) -> Shape:
    """``shape``, which fits ``before``, as ``after``: sizes captured at the wildcards of one fill those of the other.

    With ``batching`` the leading dimension stays. For an input ``before`` is ``dims`` and ``after`` ``reshape``, for
    an output the other way round.
    """
    lead = shape[:1] if batching else ()
    sizes = shape[len(lead) :]
    captured = iter([size for size, dim in zip(sizes, before, strict=True) if dim == -1])
    return (*lead, *(next(captured) if dim == -1 else dim for dim in after))
