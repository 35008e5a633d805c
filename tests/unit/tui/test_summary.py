"""What stays in the terminal when the dashboard is closed."""

from __future__ import annotations

from infer.tui.rates import History
from infer.tui.snapshot import ModelSnapshot, Overview, Server
from infer.tui.summary import text


def picture(now: float, success: int, failures: int = 0, **server: object) -> Overview:
    rows = (
        ModelSnapshot(
            "busy", "1", "READY", success=success, failures={"OTHER": failures}, latency=((2000.0, success),)
        ),
        ModelSnapshot("idle", "1", "READY"),
        ModelSnapshot("broken", "1", "UNAVAILABLE", "no such file"),
    )
    facts = {"name": "default", "pid": 1, "ready": True, "http": "127.0.0.1:8000", "started_at": 0.0, **server}
    return Overview(Server(now=now, **facts), rows)  # type: ignore[arg-type]  a table of fields


def test_a_summary_has_the_server_what_is_wrong_and_what_it_did_meanwhile() -> None:
    history = History()
    history.add(picture(7200, 100))
    history.add(picture(7260, 700, 3))
    assert text(history, "unix:/x").splitlines() == [
        "default at 127.0.0.1:8000: ready, up 2 h 01 min, 2 of 3 models ready",
        "  broken: UNAVAILABLE, no such file",
        "watched for 1 min: 600 requests answered, 3 failed",
        "  busy: 10 requests/s, p50 2 ms, p99 2 ms",
    ]


def test_one_picture_says_nothing_of_time() -> None:
    history = History()
    history.add(picture(10, 5, http=None, ready=False))
    assert (
        text(history, "http://h:8002").splitlines()[0]
        == "default at http://h:8002: not ready, up 10 s, 2 of 3 models ready"
    )
    assert "watched" not in text(history, "x")


def test_a_server_that_never_answered_is_named() -> None:
    assert text(History(), "http://h:8002") == "infer: no answer came from http://h:8002\n"
