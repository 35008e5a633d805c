"""The server that a command talks to, found once for every command, and what the configuration says besides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..failures import CommandError, ExitCode
from ..finding import Wanted, loopback_port, operator_client
from ..registry import Registry
from .output import Format

if TYPE_CHECKING:
    from ...tui.client import Client
    from ..configuration import Configuration

WAIT_S = 30.0
CHANGE_WAIT_S = 600.0
CALL_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Target:
    """A server, and how to ask it. ``wait_s`` is how long a command may take."""

    client: Client
    configuration: Configuration
    output: Format
    wait_s: float

    @property
    def context(self) -> str:
        """The name of the context in use; empty for none."""
        return self.configuration.context.name if self.configuration.context else ""

    @property
    def where(self) -> str:
        """The server as a person knows it."""
        return f"{self.client.url} (context '{self.context}')" if self.context else self.client.url

    def check_changes(self, verb: str) -> None:
        """Refuse a change where the configuration says that one only reads here. Raises CommandError."""
        found = self.configuration.resolve("read_only")
        if found.value:
            raise CommandError(
                f"this is read-only, so nothing is {verb}ed",
                f"read_only is set by {found.origin}",
                "see where settings come from: infer config view --origin",
                code=ExitCode.REFUSED,
            )


def open_target(
    url: str | None,
    context: str | None,
    timeout: float | None,
    output: Format | None = None,
    *,
    wait_s: float = WAIT_S,
    form: Format = Format.TABLE,
) -> Target:
    """The server that flags and configuration mean; nothing is asked of it yet.

    ``wait_s`` and ``form`` are this command's own defaults. Raises CommandError for a wrong configuration.
    """
    from ..configuration import load

    configuration = load(context=context)
    seconds = configuration.number("timeout", timeout, wait_s)
    client = operator_client(wanted(configuration, url), Registry.of_user(), seconds)
    return Target(client, configuration, output_form(configuration, output, form), seconds)


def wanted(configuration: Configuration, url: str | None = None) -> Wanted:
    """What flags and configuration say of the server that is meant, and the key for changes there.

    A key goes to no address outside this machine that an ``infer.toml`` names: its project may be anybody's.
    """
    found = configuration.resolve("url", url)
    address = str(found.value or "")
    foreign = found.layer == "project" and loopback_port(address) is None
    return Wanted(address, "" if foreign else control_key(configuration, found.layer))


def control_key(configuration: Configuration, layer: str) -> str:
    """The key in the environment, else that of the file which the environment, the user's file or the context names.

    ``layer`` is where the address comes from: the file of a context is for the address of that context.
    """
    key = configuration.text("control_key")
    found = configuration.resolve("key_file")
    if key or not found.value or (found.layer == "context" and layer not in ("context", "default")):
        return key
    return read_key(Path(str(found.value)).expanduser(), found.origin)


def read_key(path: Path, origin: str) -> str:
    """The key in a file: its text without the line break. Raises CommandError for a file that cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
        raise CommandError(
            f"the key in {path} cannot be read", f"{why}; {origin} names it", f"write the key into it: {path}"
        ) from error


def output_form(configuration: Configuration, output: Format | None, form: Format = Format.TABLE) -> Format:
    """How to print: as the flag says, else as the configuration does, else in the command's own form."""
    return output or Format(configuration.text("output") or form)
