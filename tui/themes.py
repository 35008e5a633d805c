"""The dashboard's colours, dark and light; chosen so that a terminal of 256 colours shows them much alike."""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
    name="infer-dark",
    primary="#5fafff",
    secondary="#87afd7",
    accent="#ffaf5f",
    foreground="#dadada",
    background="#121212",
    surface="#1c1c1c",
    panel="#262626",
    success="#5fd787",
    warning="#ffd75f",
    error="#ff5f5f",
    dark=True,
    variables={"footer-key-foreground": "#ffaf5f", "block-cursor-text-style": "none"},
)

LIGHT = Theme(
    name="infer-light",
    primary="#005faf",
    secondary="#005f87",
    accent="#af5f00",
    foreground="#262626",
    background="#ffffff",
    surface="#f5f5f5",
    panel="#e4e4e4",
    success="#008700",
    warning="#875f00",
    error="#d70000",
    dark=False,
    variables={"footer-key-foreground": "#af5f00", "block-cursor-text-style": "none"},
)
