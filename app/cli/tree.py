"""How the commands of ``infer`` are shown and refused: examples before options, groups of commands, three-line errors.

A command's docstring may end with a line ``Examples:`` and one shell command a line; the help shows them first, and the
tests run them.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ..failures import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_MARK = "Examples:"
_OTHER = "More"


def split_help(text: str | None) -> tuple[str, tuple[str, ...]]:
    """A help text's prose, and the examples at its end."""
    prose, _, examples = inspect.cleandoc(text or "").partition(f"\n{_MARK}\n")
    return prose.strip(), tuple(line.strip() for line in examples.splitlines() if line.strip())


class _Examples:
    """What groups and commands have in common: prose and examples of their help text."""

    help: str | None

    @property
    def examples(self) -> tuple[str, ...]:
        """Shell commands, one a line."""
        return split_help(self.help)[1]

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


class Group(_Examples, TyperGroup):
    """A group whose help shows its commands under headings, and which is shown where it is called alone."""

    headings: Mapping[str, Sequence[str]]
    """Names of commands by heading; what has none stands under the last."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401
        """Called alone it shows its help, and that a command is missing by its exit code."""
        if not args and not ctx.resilient_parsing:
            print(ctx.get_help())
            raise typer.Exit(ExitCode.USAGE)
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """The commands, by heading."""
        names = [name for name in self.list_commands(ctx) if not self.commands[name].hidden]
        width = max((len(name) for name in names), default=0)
        for heading, chosen in by_heading(names, getattr(type(self), "headings", {})).items():
            rows = [
                (name.ljust(width), self.commands[name].get_short_help_str(formatter.width - width - 6))
                for name in chosen
            ]
            with formatter.section(heading):
                formatter.write_dl(rows)


def by_heading(names: Sequence[str], headings: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Names under their headings, in the order of the headings; headings without a name are left out."""
    found = {heading: [name for name in chosen if name in names] for heading, chosen in headings.items()}
    placed = {name for chosen in found.values() for name in chosen}
    rest = [name for name in names if name not in placed]
    found["Commands" if not headings else _OTHER] = rest
    return {heading: chosen for heading, chosen in found.items() if chosen}


class Tree(typer.Typer):
    """A Typer application whose commands are :class:`Command` and whose help is plain text."""

    def __init__(self, *, headings: Mapping[str, Sequence[str]] | None = None, **settings: Any) -> None:  # noqa: ANN401
        group = type("HeadedGroup", (Group,), {"headings": headings or {}})
        super().__init__(
            cls=group,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            context_settings={"help_option_names": ["-h", "--help"]},
            **settings,
        )

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:  # noqa: ANN401
        """A command of this tree."""
        return super().command(name, cls=Command, **settings)


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
