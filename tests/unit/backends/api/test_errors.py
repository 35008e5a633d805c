from __future__ import annotations

import inspect
import pickle

import pytest

from infer.backends.api import errors
from infer.backends.api.errors import Code, FailureReason, InferError

CLASSES = [member for _, member in inspect.getmembers(errors, inspect.isclass) if issubclass(member, InferError)]


@pytest.mark.parametrize("error", CLASSES)
def test_every_error_has_its_message_its_code_and_its_reason(error: type[InferError]) -> None:
    raised = error("what was wrong")
    assert str(raised) == raised.message == "what was wrong"
    assert isinstance(raised.code, Code)
    assert isinstance(raised.reason, FailureReason)


def test_only_the_root_has_no_code_of_its_own() -> None:
    assert [error for error in CLASSES if error.code is Code.UNKNOWN] == [InferError]


def test_codes_are_those_of_triton() -> None:
    names = [
        "UNKNOWN",
        "INTERNAL",
        "NOT_FOUND",
        "INVALID_ARG",
        "UNAVAILABLE",
        "UNSUPPORTED",
        "ALREADY_EXISTS",
        "CANCELLED",
    ]
    assert [(code.name, code.value) for code in Code] == [(name, number) for number, name in enumerate(names)]


def test_one_error_may_carry_another_code_than_its_class() -> None:
    error = errors.LoadFailed("later", code=Code.UNSUPPORTED)
    assert error.code is Code.UNSUPPORTED
    assert errors.LoadFailed("now").code is errors.LoadFailed.code is not Code.UNSUPPORTED


def test_the_tree_at_the_top_of_the_module_names_every_class() -> None:
    drawn = errors.__doc__ or ""
    assert [error.__name__ for error in CLASSES if error.__name__ not in drawn] == []


@pytest.mark.parametrize("error", CLASSES)
def test_an_error_survives_pickling(error: type[InferError]) -> None:
    back = pickle.loads(pickle.dumps(error("m")))
    assert (type(back), str(back), back.code) == (error, "m", error.code)
