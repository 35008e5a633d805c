"""Numbers as a person reads them. Pure."""

from __future__ import annotations

_STEP = 1024
_NAMES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_WHOLE = 100


def byte_size(count: int) -> str:
    """Bytes in the largest unit that leaves at least one: ``1.5 GiB``."""
    value, unit = float(count), 0
    while value >= _STEP and unit < len(_NAMES) - 1:
        value /= _STEP
        unit += 1
    return f"{value:.0f} {_NAMES[unit]}" if unit == 0 or value >= _WHOLE else f"{value:.1f} {_NAMES[unit]}"


def uptime(seconds: float) -> str:
    """A span of time in its two largest units: ``2h 5m``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    for large, small, text in ((days, hours, "{}d {}h"), (hours, minutes, "{}h {}m"), (minutes, rest, "{}m {}s")):
        if large:
            return text.format(large, small)
    return f"{rest}s"
