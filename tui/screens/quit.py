"""What becomes of the server when the dashboard is left."""

from __future__ import annotations

from .dialog import Answer, Dialog


class QuitScreen(Dialog):
    """Asks whether the server stops or goes on. ``leave`` is chosen beforehand: nobody stops a server by accident."""

    def __init__(self, server: str, in_flight: int, *, owned: bool, changing: str) -> None:
        """``in_flight`` requests are not answered yet; ``changing`` names loads and unloads under way, if any."""
        lines = [f"The server '{server}' goes on without the dashboard."]
        if owned:
            lines += ["Attach again:  infer up        Stop it:  infer down"]
        if in_flight:
            lines += ["", f"{in_flight} requests are in flight; stopping waits for them first."]
        if changing:
            lines += ["", f"Under way: {changing}. The server finishes this by itself."]
        answers = [Answer("leave" if owned else "detach", "Leave running", "l", "primary")]
        if owned:
            answers += [Answer("stop", "Stop the server", "s", "error")]
        super().__init__("Leave the dashboard", lines, [*answers, Answer("", "Cancel", "esc")])
