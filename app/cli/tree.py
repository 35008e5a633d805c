"""How the commands of ``infer`` are found, shown and refused: examples before options, headings, three-line errors.

A command's docstring may end with ``Examples:`` and one shell command a line (or on that line, with `` · `` between);
the help shows them before the options, and the tests run them. A module of a command is imported when it is called.
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ..failures import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_MARK = "Examples:"
_BETWEEN = " · "
_OTHER = "More"


def split_help(text: str | None) -> tuple[str, tuple[str, ...]]:
    """A help text's prose, and the examples at its end."""
    prose, _, examples = f"\n{inspect.cleandoc(text or '')}".partition(f"\n{_MARK}")
    lines = (one.strip() for line in examples.splitlines() for one in line.split(_BETWEEN))
    return prose.strip(), tuple(line for line in lines if line)


class _Examples:
    """What groups and commands have in common: prose and examples of their help text."""

    help: str | None

    @property
    def examples(self) -> tuple[str, ...]:
        """Shell commands, one a line."""
        return split_help(self.help)[1]

    def get_short_help_str(self, limit: int = 45) -> str:  # noqa: ARG002  lines are broken, not cut
        """The first sentence."""
        return " ".join(split_help(self.help)[0].split("\n\n")[0].split()).partition(". ")[0].rstrip(".")

    def format_help_text(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002  typer's own click
        """Prose, then the examples as they are typed."""
        prose, examples = split_help(self.help)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(prose)
        if examples:
            with formatter.section(_MARK.removesuffix(":")):
                indent = " " * formatter.current_indent
                formatter.write("".join(f"{indent}{example}\n" for example in examples))


class Command(_Examples, TyperCommand):
    """A command whose help shows its examples before its options."""


class LateCommands(dict[str, Any]):
    """Commands by name, each made by its module when it is asked for; the names are known before."""

    def __init__(self, made: Mapping[str, Any], late: Mapping[str, str]) -> None:
        """``late`` names a module for each command that is not ``made`` yet."""
        super().__init__(dict.fromkeys(late))
        self.update(made)
        self._late = dict(late)

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401  as above
        if name in self._late:
            self[name] = load(self._late.pop(name))
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401  typer's own click
        """The command, or the default where there is none of that name."""
        return self[name] if name in self else default  # noqa: SIM401  that would be this method

    def items(self) -> Any:  # noqa: ANN401  typer's own click
        """Names and commands, all of them made."""
        return {name: self[name] for name in self}.items()


def load(module: str) -> Any:  # noqa: ANN401  typer's own click
    """The command of a module of this package: of its ``app``, or what its ``register`` adds."""
    found = importlib.import_module(f".{module}", __package__)
    if hasattr(found, "app"):
        tree = found.app
    else:
        tree = Tree()
        found.register(tree)
    return typer.main.get_command(tree)


class Group(_Examples, TyperGroup):
    """A group whose help shows its commands under headings, and which is shown where it is called alone."""

    headings: Mapping[str, Sequence[str]]
    """Names of commands by heading; what has none stands under the last."""

    late: Mapping[str, tuple[str, str]]
    """Modules and first sentences of the commands that are made when they are called, by name."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401  typer's own click
        super().__init__(**settings)
        self.commands = LateCommands(self.commands, {name: module for name, (module, _) in self.late.items()})

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002  typer's own click
        """The names, in the order of the tree; nothing is made for them."""
        return list(self.commands)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401  typer's own click
        """Called alone it shows its help, and that a command is missing by its exit code."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            raise typer.Exit(ExitCode.USAGE)
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  typer's own click
        """The commands, by heading; those that are made late by their first sentence."""
        names = self.list_commands(ctx)
        width = max((len(name) for name in names), default=0)
        for heading, chosen in by_heading(names, self.headings).items():
            rows = [(name.ljust(width), self._sentence(name)) for name in chosen]
            with formatter.section(heading):
                formatter.write_dl(rows)

    def _sentence(self, name: str) -> str:
        return self.late[name][1] if name in self.late else self.commands[name].get_short_help_str()


def by_heading(names: Sequence[str], headings: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Names under their headings, in the order of the headings; headings without a name are left out."""
    found = {heading: [name for name in chosen if name in names] for heading, chosen in headings.items()}
    placed = {name for chosen in found.values() for name in chosen}
    found[_OTHER if headings else "Commands"] = [name for name in names if name not in placed]
    return {heading: chosen for heading, chosen in found.items() if chosen}


class Tree(typer.Typer):
    """A Typer application whose commands are :class:`Command` and whose help is plain text."""

    def __init__(
        self,
        *,
        headings: Mapping[str, Sequence[str]] | None = None,
        late: Mapping[str, tuple[str, str]] | None = None,
        add_completion: bool = False,
        **settings: Any,  # noqa: ANN401  typer's own click
    ) -> None:
        """``headings`` and ``late`` are those of :class:`Group`."""
        super().__init__(
            cls=type("HeadedGroup", (Group,), {"headings": headings or {}, "late": late or {}}),
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            add_completion=add_completion,
            context_settings={"help_option_names": ["-h", "--help"]},
            **settings,
        )

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:  # noqa: ANN401  typer's own click
        """A command of this tree."""
        own = {"help_option_names": ["-h", "--help"], **settings.pop("context_settings", {})}
        return super().command(name, cls=Command, context_settings=own, **settings)


def usage_failure(error: typer.TyperException) -> CommandError:
    """What is wrong with a command line, in three lines; ``error`` is the library's."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "infer"
    what, _, why = error.format_message().partition(". ")
    return CommandError(
        what[:1].lower() + what[1:].rstrip("."),
        (why[:1].lower() + why[1:]).strip().rstrip(".") or f"that is not how {path} is called",
        f"{path} --help",
        code=ExitCode.USAGE,
    )
