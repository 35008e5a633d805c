"""Run before the main program: what the bootloader has put into the environment is for this process alone.

A model starts programs of the machine, and with LD_LIBRARY_PATH they would load this program's libraries. The loader
has read it by now; a helper process gets it from the bootloader again.
"""

import os

original = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
if original is None:
    os.environ.pop("LD_LIBRARY_PATH", None)
else:
    os.environ["LD_LIBRARY_PATH"] = original
