"""What the door knows of one model version, worked out once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .reply import ReplyWriter

if TYPE_CHECKING:
    from ..lifecycle.models import ServedModel

Target = tuple[str, int | None]
"""Name and version by which a model is asked for; None for the version that the policy chooses."""


class ModelFacts:
    """A model version under the name and version by which it was asked for, and how it replies."""

    __slots__ = ("decoupled", "model", "signature", "target", "writer")

    def __init__(self, model: ServedModel, target: Target) -> None:
        self.model = model
        self.target = target
        self.signature = model.signature
        self.decoupled = model.signature.decoupled
        self.writer = ReplyWriter(model)
