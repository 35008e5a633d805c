"""``infer doctor``: what on this machine may keep a server from running well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..failures import CommandError, ExitCode
from .options import Output
from .output import Format, print_json, print_table

if TYPE_CHECKING:
    from ..checks import Result


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    app.command()(doctor)


def doctor(
    *,
    problems: Annotated[bool, typer.Option("--problems", help="Only what is not PASS.")] = False,
    output: Output = None,
) -> None:
    """Check this machine: ports, limits, memory, GPU, backends, folders, configuration. Exit code 8 where one fails.

    Examples:
    infer doctor --problems
    infer doctor -o json
    """
    from ..checks import Verdict
    from ..facts import examine

    findings = examine()
    shown = [one for one in findings if not problems or one.verdict is not Verdict.PASS]
    if output is Format.JSON:
        print_json([document(one) for one in shown])
    elif output is Format.NAME:
        for one in shown:
            print(one.name)
    else:
        print_table(("CHECK", "", "FOUND"), [[one.name, str(one.verdict), _text(one)] for one in shown])
    failed = [one for one in findings if one.verdict is Verdict.FAIL]
    if failed:
        names = ", ".join(one.name for one in failed)
        raise CommandError(
            f"{len(failed)} of {len(findings)} checks failed: {names}",
            failed[0].text,
            failed[0].fix,
            code=ExitCode.CHECK_FAILED,
        )


def document(one: Result) -> dict[str, str]:
    """One check as JSON."""
    return {"check": one.name, "verdict": str(one.verdict), "found": one.text, "fix": one.fix}


def _text(one: Result) -> str:
    return f"{one.text}\nfix: {one.fix}" if one.fix else one.text
