"""The dashboard's screens, a file each; `tui/places.py` says which key shows which.

How a screen is added:

1. `tui/screens/NAME.py` has a class below ``screens.base.DashboardScreen`` with MODE, BINDINGS (each with a tooltip:
   the help is made of them), ``compose_body()`` and ``show(overview, history)``, which is called with every picture
   while the screen is in front. ``aim(model, version)`` turns it to one model; ``catch_up()`` shows the newest picture.
2. A row in `tui/places.py` gives it a number key, a tab and a mode; a row in `tui/verbs.py` its word for `:`
   and palette. A screen below another one is pushed (``app.push_screen``) and gives ``crumbs``; escape closes it.
3. Its looks go into `tui/tui.tcss`. Everything that blocks (each method of a ``Source``) runs in a Textual worker over
   ``asyncio.to_thread`` and comes back as a message or in the worker's own coroutine. Foreign text (names, reasons, log
   lines) is shown as ``Content`` or with ``markup=False``: a name may hold brackets.
4. `tests/tui/` drives the app with a pilot on a made-up source, and on a server; `test_looks.py` keeps pictures.

``self.dashboard`` of a screen is the app, as the protocol in `tui/dashboard.py` words it.
"""
