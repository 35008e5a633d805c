"""Calling a model from a form that its metadata makes."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Select

from .. import examples, figures
from ..dashboard import app_of
from ..failure import ClientError, Failure
from ..widgets.line import Line
from ..widgets.model_form import ModelForm
from .base import DashboardScreen

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.widget import Widget

    from ..examples import Filled
    from ..inference import Answer
    from ..rates import History, Rates
    from ..snapshot import Overview
    from ..source import Source

Key = tuple[str, str]

_SHOWN_VALUES = 64
_SHOWN_CURL = 2000


class TryScreen(DashboardScreen):
    """Choose a model, fill in its inputs, send. Calling changes nothing, so it is allowed in read-only mode too."""

    MODE = "try"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+enter,ctrl+j,ctrl+s", "send", "Send", key_display="^s", tooltip="Send the request", priority=True
        ),
        Binding("ctrl+y", "copy", "Copy curl", tooltip="Copy the curl command of the last request", priority=True),
        Binding("ctrl+e", "examples", "Examples", tooltip="Put the example values back", priority=True),
        Binding("e", "edit", "Edit", tooltip="Type into the first field; escape leaves it"),
        Binding("o", "choose", "Model", tooltip="Choose another model"),
        Binding("pagedown", "scroll(8)", "Page down", show=False, tooltip="Scroll the answer a page down"),
        Binding("pageup", "scroll(-8)", "Page up", show=False, tooltip="Scroll the answer a page up"),
        Binding("j", "scroll(1)", "Down", show=False, tooltip="Scroll the answer down"),
        Binding("k", "scroll(-1)", "Up", show=False, tooltip="Scroll the answer up"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._ready: tuple[Key, ...] = ()
        self._aimed: Key | None = None
        self._formed: Key | None = None
        self._curl = ""
        self._sending = False

    @property
    def subject(self) -> str:
        """The model that the form is for."""
        return self._formed[0] if self._formed else ""

    def compose_body(self) -> Iterable[Widget]:
        """Model and buttons, form, answer."""
        with Horizontal(id="try-head"):
            yield Select[Key]((), prompt="choose a model", compact=True, id="try-model")
            yield Button("Send", id="send", variant="primary", compact=True)
            yield Button("Copy curl", id="copy", compact=True, disabled=True)
        yield ModelForm()
        with VerticalScroll(id="answer", can_focus=False):
            yield Line("", id="answer-text")

    @property
    def _select(self) -> Select[Key]:
        return cast("Select[Key]", self.query_one("#try-model", Select))

    def show(self, overview: Overview, history: History) -> None:  # noqa: ARG002  the base's argument
        """Offer the models that are ready; the form stays as it is while its model is among them."""
        ready = tuple(row.key for row in overview.models if row.state == "READY")
        if ready == self._ready:
            return
        self._ready = ready
        chosen = _chosen(ready, self._aimed, self._formed)
        with self.prevent(Select.Changed):
            self._select.set_options([(_title(key, ready), key) for key in ready])
            if chosen is not None:
                self._select.value = chosen
        self._form_of(chosen)

    def aim(self, model: str, version: str = "") -> None:
        """Turn to a model."""
        self._aimed = (model, version)
        chosen = _chosen(self._ready, self._aimed, self._formed)
        if self._ready and chosen is not None and chosen[0] == model:
            self._select.value = chosen
        elif self._ready:
            self._say(_failed(ClientError(f"'{model}' cannot be called", "it is not ready", "load it first")))

    def on_select_changed(self, event: Select.Changed) -> None:
        """Another model."""
        event.stop()
        value: Any = event.value
        if isinstance(value, tuple):
            self._aimed = None
            self._form_of(cast("Key", value))

    def _form_of(self, key: Key | None) -> None:
        if key != self._formed:
            self._formed = key
            self._say("", "")
            self.run_worker(self._make_form(key), group="form", exclusive=True)

    async def _make_form(self, key: Key | None) -> None:
        form = self.query_one(ModelForm)
        if key is None:
            await form.clear()
            return
        try:
            metadata = await asyncio.to_thread(self.dashboard.source.metadata, *key)
            await form.show_model(" ".join(key), metadata["inputs"])
        except ClientError as error:
            await form.clear()
            self._say(_failed(error))
            self._formed = None

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """The mouse's way."""
        event.stop()
        if event.button.id == "copy":
            self.action_copy()
        else:
            self.action_send()

    def on_input_submitted(self) -> None:
        """Enter in a field sends as well."""
        self.action_send()

    def action_send(self) -> None:
        """Send what the form holds; one request at a time."""
        if self._formed is not None and not self._sending:
            self._sending = True
            self._say("sending…")
            self.run_worker(self._send(self._formed), group="send")

    async def _send(self, key: Key) -> None:
        try:
            answer, curl = await asyncio.to_thread(_call, self.dashboard.source, key, self.query_one(ModelForm).filled)
        except Failure as error:
            self._say(_failed(error))
        else:
            phases = self.dashboard.history.rates(*key)
            self._say(Content("\n").join(answered(answer, phases, curl)), curl)
        finally:
            self._sending = False

    def _say(self, text: Content | str, curl: str | None = None) -> None:
        """Show an answer; ``curl`` is the command that does the same, None where that of before stays."""
        if curl is not None:
            self._curl = curl
            self.query_one("#copy", Button).disabled = not curl
        self.query_one("#answer-text", Line).say(text)
        self.query_one("#answer", VerticalScroll).scroll_home(animate=False)

    def action_copy(self) -> None:
        """The curl command to the clipboard, by the terminal's own escape sequence: it works over SSH."""
        if self._curl:
            app_of(self).copy_to_clipboard(self._curl)
            self.notify("copied the curl command", timeout=2)
        else:
            self.notify("send the request first", timeout=2)

    def action_examples(self) -> None:
        """The values that the form began with."""
        self.query_one(ModelForm).reset()

    def action_edit(self) -> None:
        """Type into the first field."""
        self.query_one(ModelForm).focus_first()

    def action_choose(self) -> None:
        """Open the list of models."""
        self._select.focus()
        self._select.action_show_overlay()

    def action_scroll(self, lines: int) -> None:
        """Move the answer."""
        self.query_one("#answer", VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_back(self) -> None:
        """Leave the field, then the screen."""
        if self.focused is not None:
            self.set_focus(None)
        else:
            super().action_back()


def _chosen(ready: Sequence[Key], *wishes: Key | None) -> Key | None:
    """The first wish that is ready (without a version, any), else the first that is ready at all."""
    for wanted in filter(None, wishes):
        found = next((key for key in ready if key[0] == wanted[0] and wanted[1] in ("", key[1])), None)
        if found is not None:
            return found
    return ready[0] if ready else None


def _call(source: Source, key: Key, filled: Sequence[Filled]) -> tuple[Answer, str]:
    """In a thread: files are read and the server is asked."""
    return source.infer(*key, examples.read_all(filled))


def _title(key: Key, ready: Sequence[Key]) -> str:
    """The name, and the version where there are several."""
    several = sum(name == key[0] for name, _ in ready) > 1
    return f"{key[0]} {key[1]}" if several else key[0]


def _failed(error: Failure) -> Content:
    """What, why, how to mend it."""
    lines = [Content.styled(f" {error.what}", "bold $error"), Content.assemble((" why  ", "$text-muted"), error.why)]
    if error.fix:
        lines.append(Content.assemble((" fix  ", "$text-muted"), error.fix))
    return Content("\n").join(lines)


def answered(answer: Answer, phases: Rates, curl: str) -> Iterable[Content]:
    """Outputs, times, and the command that does the same."""
    yield Content.assemble((" answered", "bold $success"), f" in {figures.duration_us(answer.took_s * 1e6)} (client)")
    if phases.phases_us:
        means = "  ".join(f"{name} {figures.duration_us(mean)}" for name, mean in phases.phases_us.items())
        yield Content.assemble((" server, mean of the last 10 s  ", "$text-muted"), means)
    for tensor in answer.tensors:
        yield Content.assemble(
            (f" {tensor.name}", "bold"), (f"  {tensor.datatype} {list(tensor.shape)}", "$text-muted")
        )
        shown = json.dumps([_short(value) for value in tensor.values[:_SHOWN_VALUES]], ensure_ascii=False)
        cut = f"  … of {len(tensor.values)} values" if len(tensor.values) > _SHOWN_VALUES else ""
        yield Content(f"   {shown}{cut}")
    yield Content("")
    yield Content.styled(f" {curl[:_SHOWN_CURL]}{'…' if len(curl) > _SHOWN_CURL else ''}", "$text-muted")


def _short(value: Any) -> Any:  # noqa: ANN401  a JSON value
    """A float in as many digits as FP32 has; the rest would be noise."""
    return float(f"{value:.7g}") if isinstance(value, float) else value
