"""The filter that is typed after `/`: a regular expression, or `!` and what is not wanted. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Filter:
    """A text as it was typed. What is no regular expression (yet) is looked for as it stands."""

    text: str = ""
    _pattern: re.Pattern[str] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        wanted = self.text.removeprefix("!")
        if not wanted:
            return
        case = 0 if any(letter.isupper() for letter in wanted) else re.IGNORECASE
        try:
            pattern = re.compile(wanted, case)
        except re.error:
            pattern = re.compile(re.escape(wanted), case)
        object.__setattr__(self, "_pattern", pattern)

    @property
    def active(self) -> bool:
        """Whether it leaves anything out."""
        return self._pattern is not None

    @property
    def inverse(self) -> bool:
        """Whether what fits is left out."""
        return self.text.startswith("!")

    def keeps(self, text: str) -> bool:
        """Whether something with this text is shown."""
        return self._pattern is None or (self._pattern.search(text) is None) == self.inverse
