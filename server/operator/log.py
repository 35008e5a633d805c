"""GET /v2/operator/log: the newest log records, from memory, for who may change things."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...backends.api.errors import InvalidArgument
from ..observe.log_ring import LEVELS, LogQuery
from .reply import send

if TYPE_CHECKING:
    from collections.abc import Mapping

    import falcon

    from ..observe.log_ring import LogRing
    from .control import Gate

MOST_RECORDS: Final = 1000
"""Records of one answer."""

_PARAMETERS: Final = ("after", "limit", "level", "model")


class LogResource:
    """``after`` and ``limit`` page through the records, ``level`` and ``model`` choose among them."""

    def __init__(self, ring: LogRing, gate: Gate) -> None:
        """``ring`` is filled by the log's writer, ``gate`` says who may read it."""
        self._ring = ring
        self._gate = gate

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """A page of records."""
        self._gate.check(req, "log lines")
        page = self._ring.read(query(req.params))
        records = [record._asdict() for record in page.records]
        send(resp, {"last": page.last, "lost": page.lost, "records": records})


def query(parameters: Mapping[str, str | list[str]]) -> LogQuery:
    """What the parameters of a request ask for. Raises InvalidArgument."""
    given: dict[str, str] = {}
    for name, value in parameters.items():
        if name not in _PARAMETERS:
            raise InvalidArgument(f"unknown parameter '{name}'; the log takes {', '.join(_PARAMETERS)}")
        if not isinstance(value, str):
            raise InvalidArgument(f"parameter '{name}' is given {len(value)} times; give it once")
        given[name] = value
    default = LogQuery()
    level = given.get("level", default.level)
    if level not in LEVELS:
        raise InvalidArgument(f"invalid value for 'level': got '{level}', expected one of {', '.join(LEVELS)}")
    return LogQuery(
        after=_number("after", given["after"], 0, None) if "after" in given else None,
        limit=_number("limit", given["limit"], 1, MOST_RECORDS) if "limit" in given else default.limit,
        level=level,
        model=given.get("model", default.model),
    )


def _number(name: str, text: str, least: int, most: int | None) -> int:
    # Of at most 18 digits: what int() takes longer for is no number of a record.
    if text.isascii() and text.isdecimal() and len(text) <= 18:  # noqa: PLR2004  see above
        number = int(text)
        if number >= least and (most is None or number <= most):
            return number
    expected = f"a whole number of {least} or more" if most is None else f"a whole number from {least} to {most}"
    raise InvalidArgument(f"invalid value for '{name}': got '{text}', expected {expected}")
