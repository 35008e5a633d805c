"""Loads, unloads and reloads: what a dialog says before, and what came of them. Pure, but for :func:`carry_out`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .failure import ClientError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .snapshot import Overview
    from .source import Source

DONE = {"load": "loaded", "unload": "unloaded", "reload": "reloaded"}
"""What has been done, by verb."""

DOING = {"load": "loading", "unload": "unloading", "reload": "reloading"}
"""What is being done, by verb."""


@dataclass(frozen=True, slots=True)
class Progress:
    """``name`` is being changed, the ``number``-th (from 1) of ``total``."""

    verb: str
    name: str
    number: int
    total: int

    @property
    def words(self) -> str:
        """One line."""
        count = f" ({self.number} of {self.total})" if self.total > 1 else ""
        return f"{DOING[self.verb]} {self.name}{count}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one change; ``error`` is None where it was done."""

    verb: str
    name: str
    error: ClientError | None = None
    seconds: float = 0.0


def consequences(overview: Overview, verb: str, names: Sequence[str]) -> list[str]:
    """What a change does to others, a sentence a line: requests in flight, models that call it, what it stands on."""
    lines: list[str] = []
    for name in names:
        lines += _of_one(overview, verb, name, [other for other in names if other != name])
    return lines


def _of_one(overview: Overview, verb: str, name: str, others: Sequence[str]) -> list[str]:
    rows = [row for row in overview.models if row.name == name]
    ready = [row for row in rows if row.state == "READY"]
    if verb == "load":
        return [f"{name} serves already; what changed of it is loaded."] if ready else []
    lines: list[str] = []
    in_flight = sum(row.in_flight or 0 for row in rows)
    if in_flight:
        noun = "request is" if in_flight == 1 else "requests are"
        lines.append(f"{name}: {in_flight} {noun} in flight; " + _answered_by(verb))
    users = [user for user in overview.dependents(name) if user not in others]
    if users:
        effect = (
            "calls after the reload go to the new one"
            if verb == "reload"
            else f"{'it' if len(users) == 1 else 'they'} cannot answer without it"
        )
        lines.append(f"{name} is a step of {', '.join(users)}; {effect}.")
    if not ready:
        lines.append(f"{name} does not serve at present.")
    return lines


def _answered_by(verb: str) -> str:
    return "the version that it was sent to answers." if verb == "reload" else "unloading waits for the answers."


def question(verb: str, names: Sequence[str]) -> str:
    """The title of the dialog."""
    return f"{verb.capitalize()} {names[0]}?" if len(names) == 1 else f"{verb.capitalize()} {len(names)} models?"


def shell_lines(verb: str, names: Sequence[str]) -> list[str]:
    """The commands that do the same."""
    import shlex

    return [f"infer model {verb} {shlex.quote(name)}" for name in names]


def carry_out(source: Source, verb: str, name: str) -> Outcome:
    """Do one change and wait for its end; in a thread of its own."""
    from time import monotonic

    began = monotonic()
    try:
        if verb == "unload":
            source.unload(name)
        else:
            source.load(name)
    except ClientError as error:
        return Outcome(verb, name, error, monotonic() - began)
    return Outcome(verb, name, None, monotonic() - began)


def summary(outcomes: Sequence[Outcome]) -> str:
    """All outcomes in a line."""
    done = [outcome for outcome in outcomes if outcome.error is None]
    verb = outcomes[0].verb
    if len(outcomes) == 1 and done:
        return f"{outcomes[0].name} {DONE[verb]} in {outcomes[0].seconds:.1f} s"
    return f"{len(done)} of {len(outcomes)} {DONE[verb]}"


def result_rows(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, str, str]]:
    """Rows of the result table: name, result, and why and how to mend it."""
    for outcome in outcomes:
        if outcome.error is None:
            yield outcome.name, DONE[outcome.verb], f"in {outcome.seconds:.1f} s"
        else:
            fix = f" · fix: {outcome.error.fix}" if outcome.error.fix else ""
            yield outcome.name, "failed", f"{outcome.error.why}{fix}"
