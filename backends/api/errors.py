"""Every failure a request or a model can have, in one vocabulary.

The tree (each class says when it happens)::

    InferError                 anything a user can be told; carries a Code and a message
    ├─ InvalidArgument         the request or the configuration is wrong
    ├─ NotFound                an unknown model, version or region
    ├─ AlreadyExists           a name that is taken
    ├─ Unavailable             cannot be served now, may be later: not ready, stopping, queue full
    │  ├─ QueueFull            the model's queue holds as many requests as it may
    │  └─ QueueTimeout         the request waited as long as it may
    ├─ Unsupported             understood, and not offered
    ├─ Cancelled               the client went away or asked to stop
    ├─ Internal                the server's own fault, or an answer that breaks the contract
    │  ├─ BackendFailure       a model's code or its runtime raised
    │  └─ InstanceDied         the worker process that held the request is gone
    └─ LoadFailed              a model version could not be brought up
       └─ NotInstalled         its backend needs a package that is not here

A foreign exception becomes one of these once, at the border of its room, with ``raise … from exc``.
Each door owns one table from Code to its own status. The codes and their numbers are those of
``TRITONSERVER_Error_Code``, which ``pb_utils.TritonError`` also shows.
"""

from __future__ import annotations

import enum


class Code(enum.IntEnum):
    """What kind of failure it is, whatever carries it."""

    UNKNOWN = 0
    INTERNAL = 1
    NOT_FOUND = 2
    INVALID_ARG = 3
    UNAVAILABLE = 4
    UNSUPPORTED = 5
    ALREADY_EXISTS = 6
    CANCELLED = 7


class FailureReason(enum.Enum):
    """The ``reason`` label of ``nv_inference_request_failure``."""

    REJECTED = "REJECTED"
    CANCELED = "CANCELED"
    BACKEND = "BACKEND"
    OTHER = "OTHER"


class InferError(Exception):
    """A failure a user can be told. ``str(error)`` is the sentence, ``error.code`` the kind."""

    code: Code = Code.UNKNOWN
    reason: FailureReason = FailureReason.OTHER

    def __init__(self, message: str, *, code: Code | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code


class InvalidArgument(InferError):
    """The request or the configuration is wrong; the message names what and how to mend it."""

    code = Code.INVALID_ARG


class NotFound(InferError):
    """An unknown model, version or region."""

    code = Code.NOT_FOUND


class AlreadyExists(InferError):
    """A name that is already taken."""

    code = Code.ALREADY_EXISTS


class Unavailable(InferError):
    """Cannot be served now, may be later."""

    code = Code.UNAVAILABLE


class QueueFull(Unavailable):
    """The model's queue holds as many requests as it may."""

    reason = FailureReason.REJECTED


class QueueTimeout(Unavailable):
    """The request waited as long as it may."""

    reason = FailureReason.REJECTED


class Unsupported(InferError):
    """Understood, and not offered."""

    code = Code.UNSUPPORTED


class Cancelled(InferError):
    """The client went away or asked to stop."""

    code = Code.CANCELLED
    reason = FailureReason.CANCELED


class Internal(InferError):
    """The server's own fault, or an answer that breaks the contract."""

    code = Code.INTERNAL


class BackendFailure(Internal):
    """A model's code or its runtime raised while it executed."""

    reason = FailureReason.BACKEND


class InstanceDied(Internal):
    """The worker process that held the request is gone."""

    reason = FailureReason.BACKEND


class LoadFailed(InferError):
    """A model version could not be brought up; the message is the reason shown in the index."""

    code = Code.INTERNAL


class NotInstalled(LoadFailed):
    """The model's backend needs a package that is not installed; the message has the command that installs it."""
