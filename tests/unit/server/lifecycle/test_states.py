"""A failure as the reason of a version."""

from __future__ import annotations

import pytest

from infer.backends.api.errors import Code, InferError
from infer.server.lifecycle.states import reason_of


@pytest.mark.parametrize("code", Code)
def test_every_kind_of_failure_reads_as_triton_spells_it(code: Code) -> None:
    word, _, sentence = reason_of(InferError("no such file", code=code)).partition(": ")
    assert word.upper().replace(" ", "_").startswith(code.name)
    assert sentence == "no such file"
