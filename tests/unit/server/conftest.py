"""What the tests of the doors share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from infer.server.loop import ServingLoop

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def serving() -> Iterator[ServingLoop]:
    """A loop in its thread, as the server has it."""
    interval = sys.getswitchinterval()
    serving = ServingLoop()
    serving.start()
    yield serving
    serving.stop()
    sys.setswitchinterval(interval)
