"""What clients saw and what the server counted, model by model, and whether the two add up.

A client begins a request and sees one of three ends: *answered* (every response came), *cut* (its client cancelled
or its deadline passed first), or *refused* (an error that its client did not cause). The server *accepts* a request
and counts it once: success, or failure for a reason. A request that is cut may not have reached the server, may have
been cancelled there, or may have been finished while the cut was on its way; so the identities are

- begun = answered + cut + refused: every call ends, once;
- accepted = success + failures, and begun - cut - refused ≤ accepted ≤ begun: a request that nobody cut is accepted,
  and nothing is counted that nobody began;
- answered ≤ success ≤ answered + cut: every answer is a success, and more successes are answers to calls cut short;
- failures ≤ cut + refused, for the reason CANCELED alone;
- refused = 0, and nothing is pending at the end.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

_SAMPLE = re.compile(r"^(\w+)\{([^}]*)\} (\S+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_SHOWN = 5


@dataclass
class Tally:
    """One model's requests as the clients saw them. ``wrong`` says in sentences what no client should see."""

    begun: int = 0
    answered: int = 0
    cut: int = 0
    refused: int = 0
    responses: int = 0
    wrong: list[str] = field(default_factory=list[str])


@dataclass
class Counted:
    """One model's requests as the server counted them."""

    success: int = 0
    failures: Counter[str] = field(default_factory=Counter[str])
    pending: int = 0

    @property
    def accepted(self) -> int:
        """What was let in and has ended."""
        return self.success + self.failures.total()

    def since(self, before: Counted) -> Counted:
        """What was counted after ``before``; pending is what it is now."""
        return Counted(self.success - before.success, self.failures - before.failures, self.pending)


def counted(metrics: str) -> dict[str, Counted]:
    """The counters by model, over its versions, from the text of /metrics."""
    found: dict[str, Counted] = {}
    for line in metrics.splitlines():
        sample = _SAMPLE.match(line)
        if sample is None:
            continue
        name, labels, value = sample[1], dict(_LABEL.findall(sample[2])), sample[3]
        if name not in _FAMILIES or "model" not in labels:
            continue
        model = found.setdefault(labels["model"], Counted())
        number = round(float(value))
        if name == "nv_inference_request_success":
            model.success += number
        elif name == "nv_inference_pending_request_count":
            model.pending += number
        else:
            model.failures[labels.get("reason", "")] += number
    return found


_FAMILIES = ("nv_inference_request_success", "nv_inference_request_failure", "nv_inference_pending_request_count")


def problems(name: str, seen: Tally, had: Counted) -> list[str]:
    """Every identity that does not hold for a model, as a sentence."""
    found = [f"{name}: {sentence}" for sentence in seen.wrong[:_SHOWN]]
    if len(seen.wrong) > _SHOWN:
        found.append(f"{name}: {len(seen.wrong) - _SHOWN} more like these")
    failed, uncut = had.failures.total(), seen.begun - seen.cut - seen.refused
    claims = {
        f"{seen.begun} begun, but {seen.answered} answered + {seen.cut} cut + {seen.refused} refused": (
            seen.begun == seen.answered + seen.cut + seen.refused
        ),
        f"{seen.refused} requests were refused": seen.refused == 0,
        f"{had.accepted} accepted, fewer than the {uncut} that nobody cut": had.accepted >= uncut,
        f"{had.accepted} accepted, more than the {seen.begun} begun": had.accepted <= seen.begun,
        f"{had.success} successes, fewer than the {seen.answered} answers": had.success >= seen.answered,
        f"{had.success} successes, more than {seen.answered} answered + {seen.cut} cut": (
            had.success <= seen.answered + seen.cut
        ),
        f"{failed} failures, more than {seen.cut} cut + {seen.refused} refused": failed <= seen.cut + seen.refused,
        f"failures for other reasons than a cancel: {dict(had.failures)}": failed == had.failures["CANCELED"],
        f"{had.pending} still pending": had.pending == 0,
    }
    return found + [f"{name}: {sentence}" for sentence, holds in claims.items() if not holds]
