"""The table of settings, and how texts and TOML values become them."""

from __future__ import annotations

import pytest

from infer.app.client_settings import BY_NAME, SETTINGS, Kind, Setting, check, from_text

TEXT = Setting("text", Kind.TEXT, "", "A text.")
CHOICE = Setting("choice", Kind.TEXT, "a", "A choice.", choices=("a", "b"))
NUMBER = Setting("number", Kind.NUMBER, 1.0, "A number.")
BOOL = Setting("bool", Kind.BOOL, default=False, help="Yes or no.")


def test_every_setting_has_a_name_of_its_own_a_variable_and_a_sentence() -> None:
    assert len(BY_NAME) == len(SETTINGS)
    assert BY_NAME["http_url"].env == "INFER_HTTP_URL"
    assert all(setting.help.endswith(".") for setting in SETTINGS)


def test_every_default_is_a_value_of_its_setting() -> None:
    for setting in SETTINGS:
        if setting.default is not None:
            assert check(setting, setting.default) == setting.default


def test_a_project_may_hold_no_key_and_no_file_with_one() -> None:
    assert not BY_NAME["control_key"].in_project
    assert not BY_NAME["control_key"].in_user
    assert not BY_NAME["key_file"].in_project
    assert [setting.name for setting in SETTINGS if setting.secret] == ["control_key"]


@pytest.mark.parametrize(
    ("setting", "text", "value"),
    [
        (TEXT, " x ", " x "),
        (CHOICE, "b", "b"),
        (CHOICE, "", ""),
        (NUMBER, "1.5", 1.5),
        (NUMBER, "1e3", 1000.0),
        (BOOL, "Yes", True),
        (BOOL, "1", True),
        (BOOL, "off", False),
        (BOOL, " false ", False),
    ],
)
def test_a_text_becomes_a_value(setting: Setting, text: str, value: object) -> None:
    assert from_text(setting, text) == value


@pytest.mark.parametrize(
    ("setting", "text", "phrase"),
    [
        (CHOICE, "c", "one of a, b, got 'c'"),
        (NUMBER, "soon", "a number of seconds above 0, got 'soon'"),
        (NUMBER, "0", "above 0, got '0'"),
        (NUMBER, "-1", "above 0, got '-1'"),
        (NUMBER, "nan", "above 0, got 'nan'"),
        (BOOL, "perhaps", "true or false, got 'perhaps'"),
    ],
)
def test_a_text_that_is_no_value_is_refused_with_what_is_taken(setting: Setting, text: str, phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        from_text(setting, text)


@pytest.mark.parametrize(
    ("setting", "value"),
    [(TEXT, 1), (TEXT, True), (NUMBER, "1"), (NUMBER, True), (BOOL, 1), (BOOL, "true"), (TEXT, [])],
)
def test_a_toml_value_of_another_type_is_refused(setting: Setting, value: object) -> None:
    with pytest.raises(ValueError, match="it takes"):
        check(setting, value)


def test_an_integer_is_a_number() -> None:
    assert check(NUMBER, 3) == 3.0
