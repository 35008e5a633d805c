"""Changes of the user's ``config.toml``: contexts come, go and are chosen, and what a person wrote there stays.

The file is written beside itself and renamed, so a reader sees the old one or the new one; it is readable by its owner
only where a context names a file with a key.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .client_settings import BY_NAME, Value
from .configuration import CONTEXT_NAME, CONTEXTS, Context, read_user_file, unknown_context
from .failures import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping

_CURRENT = "context"
_PRIVATE = 0o600
_PUBLIC = 0o644


class ContextFile:
    """The contexts in one file. Every method reads it anew; those that change it write it whole."""

    def __init__(self, path: Path) -> None:
        """``path`` need not exist."""
        self.path = path

    def contexts(self) -> dict[str, Context]:
        """Every context by name. Raises CommandError for a file that is wrong."""
        return read_user_file(self.path)[1]

    @property
    def current(self) -> str:
        """The name of the one that the file chooses; empty for none."""
        return str(read_user_file(self.path)[0].values.get(_CURRENT, ""))

    def get(self, name: str) -> Context:
        """One context. Raises CommandError (not found) with the nearest name."""
        contexts = self.contexts()
        if name not in contexts:
            raise unknown_context(name, contexts, f"{self.path} does not hold it")
        return contexts[name]

    def use(self, name: str) -> None:
        """Make a context the one in use."""
        self.get(name)
        document = self._document()
        document[_CURRENT] = name
        self._write(document)

    def add(self, name: str, values: Mapping[str, Value], *, replace: bool = False) -> None:
        """Add a context; an existing one is changed only where ``replace`` says so. Raises CommandError."""
        if CONTEXT_NAME.fullmatch(name) is None:
            raise CommandError(
                f"'{name}' is no name for a context",
                "a name is made of letters, digits, - _ and ., and begins with a letter or a digit",
                "for example: infer ctx add prod --url http://host:8002",
                code=ExitCode.USAGE,
            )
        if name in self.contexts() and not replace:
            raise CommandError(
                f"there is a context '{name}' already",
                f"{self.path} holds it",
                f"change it with --replace, or remove it: infer ctx remove {name}",
                code=ExitCode.USAGE,
            )
        import tomlkit  # noqa: PLC0415  only commands that write need it

        document = self._document()
        if CONTEXTS not in document:
            document[CONTEXTS] = tomlkit.table(is_super_table=True)
        table = tomlkit.table()
        for key, value in values.items():
            table[BY_NAME[key].name] = value
        document[CONTEXTS][name] = table
        self._write(document)

    def remove(self, name: str) -> bool:
        """Forget a context; whether it was the one in use, which leaves none in use."""
        self.get(name)
        document = self._document()
        del document[CONTEXTS][name]
        if not document[CONTEXTS]:
            del document[CONTEXTS]
        was_current = document.get(_CURRENT) == name
        if was_current:
            del document[_CURRENT]
        self._write(document)
        return was_current

    def _document(self) -> Any:  # noqa: ANN401  tomlkit's, which type checkers see as everything at once
        import tomlkit  # noqa: PLC0415  only commands that write need it

        self.contexts()  # a file that is wrong is not written over
        return tomlkit.parse(self.path.read_text(encoding="utf-8") if self.path.exists() else "")

    def _write(self, document: Any) -> None:  # noqa: ANN401  tomlkit's
        import tomlkit  # noqa: PLC0415  only commands that write need it

        tables: Mapping[str, Any] = document.get(CONTEXTS, {})
        private = any("key_file" in table for table in tables.values())
        mode = _PRIVATE if private else _mode(self.path)
        # A link into a folder of dot files stays a link.
        target = Path(os.path.realpath(self.path))
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(target, tomlkit.dumps(document), mode)
        except OSError as error:
            raise CommandError(
                f"{self.path} cannot be written",
                error.strerror or str(error),
                "set XDG_CONFIG_HOME to a folder that you may write",
            ) from error


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        return _PUBLIC


def write_atomically(path: Path, text: str, mode: int) -> None:
    """Write a file so that a reader sees the old one or the new one. Raises OSError, and then leaves nothing behind."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
