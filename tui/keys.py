"""The keys that mean the same on every screen."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from . import places

EVERYWHERE: list[BindingType] = [
    *(
        Binding(place.key, f"perform('{place.name}')", place.title, show=False, tooltip=f"Show {place.title.lower()}")
        for place in places.available()
    ),
    Binding("question_mark,f1", "perform('help')", "Help", key_display="?", tooltip="All keys of this screen"),
    Binding("colon", "command", "Command", key_display=":", tooltip="Type a command, with completion"),
    Binding("ctrl+p", "command_palette", "Palette", show=False, tooltip="Find any command by parts of its name"),
    Binding("p", "perform('pause')", "Pause", show=False, tooltip="Stop the pictures, or go on"),
    Binding("plus", "perform('slower')", "Slower", show=False, key_display="+", tooltip="Longer intervals"),
    Binding("minus", "perform('faster')", "Faster", show=False, key_display="-", tooltip="Shorter intervals"),
    Binding("ctrl+r", "perform('refresh')", "Refresh", show=False, tooltip="Ask the server now"),
    Binding("t", "perform('theme')", "Theme", show=False, tooltip="Light or dark"),
    Binding("m", "perform('mouse')", "Mouse", show=False, tooltip="Mouse on or off; off lets the terminal select"),
    Binding("q", "quit", "Quit", tooltip="Leave the dashboard; asks what becomes of the server"),
    Binding("ctrl+q,ctrl+c", "quit", "Quit", show=False, priority=True, tooltip="The same as q"),
]
"""In the order in which the last line and the help show them."""
