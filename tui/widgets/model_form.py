"""A form of a model's inputs: a line of what each takes, and a field for its value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Input

from .. import examples
from .line import Line

if TYPE_CHECKING:
    from collections.abc import Sequence

Document = dict[str, Any]


class Field(Input):
    """One input's value: JSON, a text, @FILE.npy, or a word that fills it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "app.focus_next", "Next", show=False, tooltip="The next field"),
        Binding("up", "app.focus_previous", "Previous", show=False, tooltip="The field before"),
    ]

    def __init__(self, spec: Document, text: str) -> None:
        super().__init__(value=text, placeholder="left out", compact=True, select_on_focus=False)
        self.spec = spec


class ModelForm(VerticalScroll, can_focus=False):
    """Made anew for each model; remembers what was typed for the others."""

    def __init__(self) -> None:
        super().__init__(id="form")
        self._typed: dict[str, dict[str, str]] = {}
        self._model = ""

    async def show_model(self, name: str, inputs: Sequence[Document]) -> None:
        """The fields of a model. Values that were typed for it before come back."""
        self.remember()
        self._model = name
        typed = self._typed.get(name, {})
        await self.remove_children()
        for spec in inputs:
            what = Content.assemble(
                (f" {spec['name']}", "bold"), (f"  {spec['datatype']} {spec['shape']}", "$text-muted")
            )
            await self.mount(Line(), Field(spec, typed.get(str(spec["name"]), examples.example(spec))))
            self.query(Line).last().say(what)

    def remember(self) -> None:
        """Keep what is typed now."""
        if self._model:
            self._typed[self._model] = {str(field.spec["name"]): field.value for field in self.query(Field)}

    async def clear(self) -> None:
        """No fields."""
        self.remember()
        self._model = ""
        await self.remove_children()

    def reset(self) -> None:
        """The values that the form began with."""
        for field in self.query(Field):
            field.value = examples.example(field.spec)

    @property
    def filled(self) -> list[examples.Filled]:
        """The inputs and what is typed for them; an empty field is left out."""
        return [(field.spec, field.value) for field in self.query(Field) if field.value.strip()]

    def focus_first(self) -> None:
        """Type into the first field."""
        fields = self.query(Field)
        if fields:
            fields.first().focus()
