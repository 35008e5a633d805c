"""The main program of the binary.

There is no interpreter beside it that ``multiprocessing`` in a model could start; it starts this program with words of
its own, and those are answered first.
"""

import sys

if "-c" in sys.argv[1:] or sys.argv[1:2] == ["--multiprocessing-fork"]:
    from multiprocessing import freeze_support

    freeze_support()

from infer.app.cli import main

main()
