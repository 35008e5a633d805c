"""Numbers as a person reads them in a narrow column: at most six or seven characters each, the unit beside them. Pure.

What is not known is a dash, so that a column never has holes.
"""

from __future__ import annotations

NONE = "-"
_KILO = 1000
_KIBI = 1024
_MINUTE = 60
_HOUR = 3600
_DAY = 86400
_WHOLE = 99.5
_TENTHS = 9.95


def _three(value: float) -> str:
    """Three digits at most before the rest is rounded away."""
    if value >= _WHOLE or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= _TENTHS else f"{value:.2f}"


def count(value: float | None) -> str:
    """A number of things: ``7``, ``950``, ``12.3k``, ``4.1M``."""
    if value is None:
        return NONE
    for unit in ("", "k", "M", "G"):
        if abs(value) < _KILO - 0.5 or unit == "G":
            return f"{value:.0f}{unit}" if unit == "" or abs(value) >= _WHOLE else f"{value:.1f}{unit}"
        value /= _KILO
    return NONE


def rate(value: float | None) -> str:
    """Events a second: ``0``, ``0.25``, ``12.5``, ``240``, ``14.2k``."""
    if value is None:
        return NONE
    return _three(value) if value < _KILO - 0.5 else count(value)


def microseconds(value: float | None) -> str:
    """A span given in microseconds: ``85µs``, ``3.92ms``, ``1.72s``, ``2m05s``."""
    if value is None:
        return NONE
    if value < _KILO - 0.5:
        return f"{_three(value)}µs"
    if value < _KILO * (_KILO - 0.5):
        return f"{_three(value / _KILO)}ms"
    seconds = value / _KILO / _KILO
    return f"{_three(seconds)}s" if seconds < _MINUTE else age(seconds)


def age(seconds: float | None) -> str:
    """A long span: ``42s``, ``2m05s``, ``2h05m``, ``3d04h``."""
    if seconds is None:
        return NONE
    whole = max(0, int(seconds))
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02d}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02d}m"
    return f"{whole // _DAY}d{whole % _DAY // _HOUR:02d}h"


def size(value: float | None) -> str:
    """Bytes: ``512 B``, ``1.40 GiB``."""
    if value is None:
        return NONE
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < _KILO - 0.5:
            return f"{value:.0f} B" if unit == "B" else f"{_three(value)} {unit}"
        value /= _KIBI
    return f"{_three(value)} TiB"


def percent(share: float | None) -> str:
    """A share of 0..1: ``7%``."""
    return NONE if share is None else f"{share * 100:.0f}%"
