"""The dashboard's screens, a file each; `tui/places.py` says which key shows which."""
