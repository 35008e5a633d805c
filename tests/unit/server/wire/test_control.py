"""What clients may ask of the repository, and in which words each door refuses."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any

import pytest

from infer.backends.api.errors import Code, InferError
from infer.server.lifecycle.overrides import LoadOverrides
from infer.server.wire.control import (
    GRPC_WORDS,
    HTTP_WORDS,
    ControlWords,
    check_control,
    json_load_overrides,
    load_overrides,
    unload_dependents,
)

BOTH = pytest.mark.parametrize("words", [HTTP_WORDS, GRPC_WORDS], ids=["http", "grpc"])


def refusal(call: Any, *args: Any) -> tuple[Code, str]:
    with pytest.raises(InferError) as caught:
        call(*args)
    return caught.value.code, str(caught.value)


@pytest.mark.parametrize(
    ("mode", "model", "repository", "code", "phrase"),
    [
        ("explicit", "m", "r", Code.UNSUPPORTED, "'repository_name' specification is not supported"),
        ("none", "m", "", Code.UNAVAILABLE, "explicit model load / unload is not allowed if polling is enabled"),
        ("poll", "m", "", Code.UNAVAILABLE, "explicit model load / unload is not allowed if polling is enabled"),
        ("explicit", "", "", Code.INVALID_ARG, "Model name cannot be empty. Please enter a valid name to deploy."),
        ("explicit", " \t", "", Code.INVALID_ARG, "Model name cannot be empty."),
        ("explicit", "../m", "", Code.INVALID_ARG, "model name must not contain path traversal characters"),
        ("explicit", "a/b", "", Code.INVALID_ARG, "model name must not contain path traversal characters"),
    ],
)
def test_a_client_may_change_models_in_explicit_mode_by_plain_names(
    mode: str, model: str, repository: str, code: Code, phrase: str
) -> None:
    found, message = refusal(check_control, SimpleNamespace(control_mode=mode, remote_control=True), model, repository)
    assert found is code
    assert phrase in message


def test_a_server_that_takes_no_changes_from_clients_says_which_flag_it_is_and_what_to_do() -> None:
    engine = SimpleNamespace(control_mode="explicit", remote_control=False)
    code, message = refusal(check_control, engine, "m", "")
    assert code is Code.UNAVAILABLE
    assert "--allow-remote-control=false" in message
    assert "infer model load" in message
    engine.control_mode = "none"
    assert "polling" in refusal(check_control, engine, "m", "")[1]


def test_a_plain_name_in_explicit_mode_is_taken() -> None:
    engine: Any = SimpleNamespace(control_mode="explicit", remote_control=True)
    check_control(engine, "model-1.0_b", "")


@BOTH
def test_nothing_given_overrides_nothing(words: ControlWords) -> None:
    assert load_overrides({}, words) == json_load_overrides({}, words) == LoadOverrides()


@BOTH
def test_configuration_and_files_are_read(words: ControlWords) -> None:
    given = {"config": "{}", "file:1/a": b"\0\xff", "file:": b""}
    assert load_overrides(given, words) == LoadOverrides("{}", {"1/a": b"\0\xff", "": b""})
    assert load_overrides({"config": ""}, words) == LoadOverrides("")


def test_files_in_json_are_base64_whose_lines_may_be_broken() -> None:
    content = bytes(range(256))
    text = base64.encodebytes(content).decode().replace("\n", "\r\n ")
    assert json_load_overrides({"file:1/a": text}, HTTP_WORDS).files == {"1/a": content}


@pytest.mark.parametrize("text", ["a", "ab=c", "äöüß", "a?==", "=", "YQ==YQ"])
def test_what_is_no_base64_is_named(text: str) -> None:
    code, message = refusal(json_load_overrides, {"file:1/\udc80": text}, HTTP_WORDS)
    assert code is Code.INVALID_ARG
    assert message.startswith(r"load parameter 'file:1/\udc80' is not base64: ")


@pytest.mark.parametrize("value", [5, None, True, {}, [], 1.5])
def test_over_http_every_value_is_a_string(value: Any) -> None:
    for key in ("config", "file:1/a", "foo"):
        assert refusal(json_load_overrides, {key: value}, HTTP_WORDS) == (
            Code.INTERNAL,
            "attempt to access JSON non-string as string",
        )


def test_an_unknown_parameter_is_refused_in_the_doors_words() -> None:
    http = (Code.INTERNAL, "unexpected error on creating Triton parameter")
    assert refusal(json_load_overrides, {"foo": "bar"}, HTTP_WORDS) == http
    grpc = (Code.INVALID_ARG, "unrecognized load parameter 'foo'.")
    assert refusal(load_overrides, {"foo": "bar"}, GRPC_WORDS) == grpc


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("config", 1, "invalid value type for load parameter 'config', expected string_param."),
        ("config", b"{}", "invalid value type for load parameter 'config', expected string_param."),
        ("file:1/a", "text", "invalid value type for load parameter 'file:1/a', expected bytes_param."),
        ("file:1/a", True, "invalid value type for load parameter 'file:1/a', expected bytes_param."),
    ],
)
def test_over_grpc_a_wrong_type_is_named(key: str, value: Any, message: str) -> None:
    assert refusal(load_overrides, {key: value}, GRPC_WORDS) == (Code.INVALID_ARG, message)


@BOTH
def test_dependents_go_where_that_is_asked_for(words: ControlWords) -> None:
    assert not unload_dependents({}, words)
    assert not unload_dependents({"unload_dependents": False, "foo": "bar"}, words)
    assert unload_dependents({"unload_dependents": True}, words)


def test_dependents_that_are_no_boolean_are_refused_in_the_doors_words() -> None:
    given = {"unload_dependents": "x"}
    assert refusal(unload_dependents, given, HTTP_WORDS) == (
        Code.INTERNAL,
        "Unable to parse 'unload_dependents': attempt to access JSON non-boolean as boolean",
    )
    assert refusal(unload_dependents, given, GRPC_WORDS) == (
        Code.INVALID_ARG,
        "invalid value type for parameter 'unload_dependents', expected bool_param.",
    )
