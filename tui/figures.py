"""Numbers as people read them: short, with their unit, at most four digits. A dash stands for what is not known."""

from __future__ import annotations

from .glyphs import BARS

NONE = "-"
_KIB = 1024.0


def count(value: float | None) -> str:
    """A number of things: ``7``, ``12.3k``, ``4.56M``."""
    if value is None:
        return NONE
    for limit, divisor, unit in ((10_000, 1, ""), (10_000_000, 1e3, "k"), (10_000_000_000, 1e6, "M")):
        if abs(value) < limit:
            return _short(value / divisor) + unit
    return _short(value / 1e9) + "G"


def rate(value: float | None) -> str:
    """Something a second; small rates keep a digit behind the point."""
    if value is None:
        return NONE
    return "0" if value == 0 else count(value)


def duration_us(value: float | None) -> str:
    """Microseconds: ``870 µs``, ``4.2 ms``, ``1.2 s``."""
    if value is None:
        return NONE
    if value < 1000:  # noqa: PLR2004  microseconds in a millisecond
        return f"{value:.0f} µs"
    if value < 1_000_000:  # noqa: PLR2004  microseconds in a second
        return f"{_short(value / 1000)} ms"
    return f"{_short(value / 1e6)} s"


def size(value: float | None) -> str:
    """Bytes: ``512 B``, ``84 MB``, ``1.4 GB``, in powers of 1024."""
    if value is None:
        return NONE
    amount = float(value)
    for unit in ("B", "KB", "MB", "GB"):
        if abs(amount) < _KIB:
            return f"{_short(amount)} {unit}"
        amount /= _KIB
    return f"{_short(amount)} TB"


def span(seconds: float | None) -> str:
    """A length of time: ``42 s``, ``3 min``, ``2 h 05 min``, ``3 d 4 h``."""
    if seconds is None:
        return NONE
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if not minutes:
        return f"{seconds:.0f} s"
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60:02} min" if not days else f"{days} d {hours % 24} h"


def _short(value: float) -> str:
    """Three digits that count."""
    if value == int(value) or abs(value) >= 100:  # noqa: PLR2004  three digits before the point are enough
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2f}"


def spark_line(values: list[float], width: int, top: float | None = None) -> str:
    """The last ``width`` values as bars from 0 to ``top`` (default: the largest); right-aligned, zeros are blank."""
    shown = values[-width:]
    highest = top if top is not None else max(shown, default=0.0)
    if highest <= 0:
        return " " * width
    heights = [min(len(BARS), -int(-value / highest * len(BARS) // 1)) for value in shown]
    return "".join(BARS[height - 1] if height > 0 else " " for height in heights).rjust(width)
