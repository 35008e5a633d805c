"""One command's change of models: it is shown, asked about, carried out, and told of."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer

from ...tui.failure import ClientError, Failure, Kind
from ..changing import Outcome, change, fingerprint, index, overview_of, states
from ..failures import CommandError, ExitCode, exit_code
from ..selection import Selection, nearest, reasons_to_ask, select
from .output import Format, note, print_json, print_table

if TYPE_CHECKING:
    from ...tui.snapshot import Overview
    from .target import Target

Row = dict[str, Any]


@dataclass(slots=True)
class Change:
    """One command's change: what is asked for, of which models, where."""

    verb: str
    target: Target
    selection: Selection
    rows: list[Row]
    overview: Overview | None
    wait: bool = True
    document: Row = field(default_factory=dict[str, Any])
    notes: dict[str, str] = field(default_factory=dict[str, str])
    """Models for which there is nothing to do, and why."""

    def describe(self) -> str:
        """What is about to be done, for a person."""
        lines = [f"{self.verb} at {self.target.where}:"]
        for name in self.selection.names:
            known = tuple(row for row in self.rows if row["name"] == name)
            lines.append(f"  {name}  {self.notes.get(name) or states(known)}")
        return "\n".join(lines)


def planned(verb: str, names: list[str] | None, *, every: bool, wait: bool, where: Target) -> Change:
    """An unload or a reload of the models that names and globs mean among the loaded ones."""
    where.check_changes(verb)
    rows = index(where.client)
    overview = overview_of(where.client)
    serving = {str(row["name"]) for row in rows if row.get("state") in ("READY", "LOADING", "UNLOADING")}
    selection = select(names or [], [name for name in _names(rows) if name in serving], every=every, kind="loaded ")
    plan = Change(verb, where, selection, rows, overview, wait)
    for name in selection.names:
        if name not in serving:
            near = "" if name in _names(rows) else nearest(name, _names(rows))
            plan.notes[name] = f"is not loaded{f'; did you mean {near}?' if near else ''}"
    return plan


def _names(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(str(row["name"]) for row in rows))


def run(plan: Change, *, dry_run: bool = False, yes: bool = False) -> None:
    """Show, ask, do, tell. Raises CommandError with the exit code that says what came of it."""
    if dry_run:
        note(f"this would {plan.describe()}")
        _print_names(plan)
        return
    _ask(plan, yes=yes)
    ends = time.monotonic() + plan.target.wait_s
    outcomes = [_one(plan, name, ends) for name in plan.selection.names]
    _print(plan, outcomes)
    for outcome in outcomes:
        if outcome.note:
            note(f"note: {outcome.note}")
    _raise(plan, outcomes)


def _ask(plan: Change, *, yes: bool) -> None:
    """Have a person say yes where that is due. Raises CommandError where nobody can, or says no."""
    reasons = () if plan.verb == "load" else reasons_to_ask(plan.selection, plan.overview)
    if len(plan.selection.names) > 1 or plan.selection.broad or reasons:
        note(plan.describe())
    asks = plan.verb != "load" and (plan.selection.broad or reasons)
    if not asks or yes or not plan.selection.names:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        if not plan.selection.broad:
            return  # a script that spells out its models means them
        raise CommandError(
            f"nothing was {plan.verb}ed",
            "a glob or --all changes more than was spelt out, and there is no terminal to ask at",
            f"if you mean it: infer model {plan.verb} … --yes",
            code=ExitCode.USAGE,
        )
    for reason in reasons:
        note(f"  {reason}")
    if not typer.confirm(f"{plan.verb} at {plan.target.where}?", err=True):
        raise CommandError(f"nothing was {plan.verb}ed", "the answer was no", "say yes beforehand with --yes")


def _one(plan: Change, name: str, ends: float) -> Outcome:
    """Change one model, in the time that is left."""
    client = plan.target.client
    if name in plan.notes:
        if plan.verb == "unload":
            return Outcome(name, note=f"'{name}' {plan.notes[name]}")
        failure = ClientError(
            f"'{name}' cannot be loaded again",
            f"it {plan.notes[name]}",
            f"load it: infer model load {name}",
            kind=Kind.NOT_READY,
        )
        return Outcome(name, failure=failure)
    left = ends - time.monotonic()
    if left <= 0:
        failure = ClientError(
            f"'{name}' was left as it is", "the time was over", "give it longer: --timeout SECONDS", kind=Kind.NOT_READY
        )
        return Outcome(name, failure=failure)
    before = fingerprint(plan.overview, name)
    verb = "unload" if plan.verb == "unload" else "load"
    show = note if sys.stderr.isatty() else _silent
    outcome = change(client, verb, name, plan.document, wait_s=left if plan.wait else None, show=show)
    if plan.verb != "reload" or outcome.failure is not None or outcome.note:
        return outcome
    same = before is not None and before == fingerprint(overview_of(client), name)
    return Outcome(name, outcome.rows, f"'{name}' has not changed, so nothing was loaded" if same else "")


def _silent(_text: str) -> None:
    """States on their way are for terminals."""


def _print(plan: Change, outcomes: list[Outcome]) -> None:
    """What came of it: a line for one, a table for several."""
    if plan.target.output is Format.JSON:
        print_json([_document(outcome) for outcome in outcomes])
    elif plan.target.output is Format.NAME:
        for outcome in outcomes:
            if outcome.failure is None:
                print(outcome.name)
    elif len(outcomes) == 1:
        if outcomes[0].failure is None:
            print(f"{outcomes[0].name}  {outcomes[0].state}")
    elif outcomes:
        cells = [
            [
                outcome.name,
                "failed" if outcome.failure else "ok",
                outcome.failure.why if outcome.failure else outcome.state,
            ]
            for outcome in outcomes
        ]
        print_table(("MODEL", plan.verb.upper(), "STATE"), cells)
    else:
        note(f"note: there is nothing to {plan.verb}")


def _document(outcome: Outcome) -> Row:
    failure = outcome.failure
    return {
        "name": outcome.name,
        "ok": failure is None,
        "versions": list(outcome.rows),
        "note": outcome.note,
        "error": None if failure is None else {"what": failure.what, "why": failure.why, "fix": failure.fix},
    }


def _print_names(plan: Change) -> None:
    if plan.target.output is Format.JSON:
        print_json([{"name": name, "would": plan.verb} for name in plan.selection.names if name not in plan.notes])
    elif plan.target.output is Format.NAME:
        for name in plan.selection.names:
            if name not in plan.notes:
                print(name)


def _raise(plan: Change, outcomes: list[Outcome]) -> None:
    """Fail as the changes did: with the failure of the only one, or a sum of several."""
    failures: list[Failure] = [outcome.failure for outcome in outcomes if outcome.failure is not None]
    if not failures:
        return
    if len(outcomes) == 1:
        raise failures[0]
    codes = {exit_code(failure) for failure in failures}
    every = len(failures) == len(outcomes)
    fix = next((failure.fix for failure in failures if failure.fix), "")
    raise CommandError(
        f"{plan.verb} failed for {len(failures)} of {len(outcomes)} models",
        f"{failures[0].what}: {failures[0].why}",
        fix,
        code=(codes.pop() if len(codes) == 1 else ExitCode.FAILED) if every else ExitCode.PARTIAL,
    )
