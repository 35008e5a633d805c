"""What is said before and after models are changed."""

from __future__ import annotations

from typing import Any

from infer.tui.changes import Outcome, Progress, carry_out, consequences, question, result_rows, shell_lines, summary
from infer.tui.failure import ClientError
from infer.tui.snapshot import ModelSnapshot, Overview, Server

REFUSED = ClientError("the server refused it", "model.py has no class", "add one")


def overview(*rows: ModelSnapshot) -> Overview:
    return Overview(Server(), rows)


def row(name: str, **fields: Any) -> ModelSnapshot:
    return ModelSnapshot(name, **{"version": "1", "state": "READY", **fields})


def test_unloading_names_requests_in_flight_and_models_that_stand_on_it() -> None:
    picture = overview(row("step", in_flight=3), row("flow", depends_on=("step",)), row("other"))
    assert consequences(picture, "unload", ["step"]) == [
        "step is a step of flow; it cannot answer without it.",
        "step: 3 requests are in flight; unloading waits for the answers.",
    ]
    assert consequences(picture, "unload", ["other"]) == []


def test_a_model_that_goes_along_is_no_consequence() -> None:
    picture = overview(row("step"), row("flow", depends_on=("step",)), row("more", depends_on=("step",)))
    assert consequences(picture, "unload", ["step", "flow"]) == ["step is a step of more; it cannot answer without it."]
    assert "flow, more; they cannot" in consequences(picture, "unload", ["step"])[0]


def test_a_reload_leaves_nobody_without_an_answer() -> None:
    picture = overview(row("step", in_flight=1), row("flow", depends_on=("step",)))
    assert consequences(picture, "reload", ["step"]) == [
        "step is a step of flow; calls after the reload go to the new one.",
        "step: 1 request is in flight; the version that they were sent to answers.",
    ]


def test_requests_of_all_versions_count() -> None:
    picture = overview(row("m", in_flight=1), row("m", version="2", in_flight=2))
    assert consequences(picture, "unload", ["m"]) == ["m: 3 requests are in flight; unloading waits for the answers."]


def test_many_models_are_summed_up() -> None:
    picture = overview(*(row(f"m{n}", in_flight=2) for n in range(10)))
    found = consequences(picture, "unload", [f"m{n}" for n in range(10)])
    assert found == ["20 requests are in flight at 10 models; unloading waits for the answers."]


def test_what_does_not_serve_is_said() -> None:
    picture = overview(row("m", state="UNAVAILABLE"))
    assert consequences(picture, "unload", ["m"]) == ["m does not serve at present."]
    assert consequences(picture, "load", ["m"]) == []


def test_loading_what_serves_says_what_that_means() -> None:
    assert consequences(overview(row("m")), "load", ["m"]) == ["m serves already; what changed of it is loaded."]


def test_a_question_names_one_model_or_their_number() -> None:
    assert question("unload", ["m"]) == "Unload m?"
    assert question("load", ["a", "b"]) == "Load 2 models?"
    assert shell_lines("load", ["a", "b c"]) == ["infer model load a", "infer model load 'b c'"]


class Recorder:
    """A source that writes down what it is asked."""

    def __init__(self, error: ClientError | None = None) -> None:
        self.calls: list[str] = []
        self.error = error

    def load(self, name: str) -> None:
        self.calls.append(f"load {name}")
        if self.error:
            raise self.error

    def unload(self, name: str) -> None:
        self.calls.append(f"unload {name}")


def test_verbs_become_calls_and_failures_become_outcomes() -> None:
    source: Any = Recorder()
    assert carry_out(source, "load", "m").error is None
    assert carry_out(source, "unload", "m").error is None
    assert carry_out(source, "reload", "m").error is None
    assert source.calls == ["load m", "unload m", "load m"]
    refusing: Any = Recorder(REFUSED)
    assert carry_out(refusing, "load", "m").error is REFUSED


def test_outcomes_are_summed_up_and_listed_with_reason_and_mend() -> None:
    outcomes = (Outcome("load", "a", None, 0.5), Outcome("load", "b", REFUSED))
    assert summary(outcomes) == "1 of 2 loaded"
    assert summary(outcomes[:1]) == "a loaded in 0.5 s"
    assert summary(outcomes[1:]) == "0 of 1 loaded"
    assert list(result_rows(outcomes)) == [
        ("a", "loaded", "in 0.5 s"),
        ("b", "failed", "model.py has no class · fix: add one"),
    ]


def test_progress_counts_where_there_are_several() -> None:
    assert Progress("unload", "m", 1, 1).words == "unloading m"
    assert Progress("load", "m", 2, 5).words == "loading m (2 of 5)"
