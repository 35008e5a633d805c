"""The question before models are loaded, unloaded or reloaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from ..changes import question, shell_lines
from .dialog import Answer, Dialog

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN = 8


class ConfirmScreen(Dialog):
    """Names what the change touches; the answer that does nothing is chosen beforehand."""

    def __init__(self, verb: str, names: Sequence[str], consequences: Sequence[str]) -> None:
        lines = [Content(line) for line in self._names(names)]
        lines += [Content.styled(f"! {line}", "$warning") for line in consequences]
        if not consequences:
            calm = (
                "No request is in flight, and no other model stands on it."
                if verb != "load"
                else "It does not serve yet."
            )
            lines.append(Content(calm))
        same = shell_lines(verb, names)
        more = f"\n  … and {len(same) - 1} more like it" if len(same) > 1 else ""
        lines += [Content(""), Content.styled(f"The same from a shell:  {same[0]}{more}", "dim")]
        variant = "error" if verb == "unload" else "warning"
        answers = [Answer("", "Cancel", "esc", "primary"), Answer(verb, verb.capitalize(), "y", variant)]
        super().__init__(question(verb, names), lines, answers)

    @staticmethod
    def _names(names: Sequence[str]) -> list[str]:
        if len(names) == 1:
            return []
        shown = [f"  {name}" for name in names[:_SHOWN]]
        return [*shown, *([f"  … and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []), ""]
