"""Settings are one frozen view of the flags, and contradictions are refused in sentences."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path

import pytest

from infer.app.arguments import BadOption
from infer.app.flags import BY_NAME
from infer.app.settings import ServerSettings, from_command_line

REPOSITORY = "--model-repository=/models"


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INFER_CONTROL_KEY", raising=False)


def settings(*words: str) -> ServerSettings:
    return from_command_line([REPOSITORY, *words])


def test_defaults_are_tritons_and_the_same_from_python_and_from_the_command_line() -> None:
    assert settings() == ServerSettings(model_repository=(Path("/models"),))
    assert (settings().http_port, settings().metrics_port, settings().id) == (8000, 8002, "triton")


def test_every_flag_that_is_acted_on_has_a_field() -> None:
    named_otherwise = {
        "help",
        "model-store",
        "disable-auto-complete-config",
        "strict-model-config",
        "control-key-file",
    }
    acted = {flag.name for flag in BY_NAME.values() if flag.acted} - named_otherwise
    derived = {"auto_complete_config", "notices", "control_key", "control_socket", "name"}
    assert {name.replace("-", "_") for name in acted} | derived == {field.name for field in fields(ServerSettings)}


def test_settings_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        settings().id = "other"  # type: ignore[misc]


def test_repositories_are_a_set_in_the_order_given() -> None:
    assert settings("--model-store=/more", REPOSITORY).model_repository == (Path("/models"), Path("/more"))


def test_the_metrics_address_follows_that_of_http() -> None:
    assert settings("--http-address=127.0.0.1").metrics_address == "127.0.0.1"
    assert settings("--http-address=127.0.0.1", "--metrics-address=::1").metrics_address == "::1"


def test_a_negative_exit_timeout_is_none() -> None:
    assert settings("--exit-timeout-secs=-5").exit_timeout_secs == 0


def test_retries_of_a_load_are_acted_on() -> None:
    given = settings("--model-load-retry-count=2")
    assert (given.model_load_retry_count, given.notices) == (2, ())


def test_backend_settings_are_sorted_by_backend() -> None:
    given = settings("--backend-config=python,a=1", "--backend-config=b=x=y", "--backend-config=python,a=2")
    assert given.backend_config == {"python": {"a": "2"}, "": {"b": "x=y"}}


def test_the_backend_directory_and_the_bound_of_a_load_are_acted_on() -> None:
    given = settings("--backend-directory=/my/backends", "--model-load-timeout=2.5")
    assert (given.backend_directory, given.model_load_timeout, given.notices) == (Path("/my/backends"), 2.5, ())
    assert str(settings().backend_directory) == "/opt/tritonserver/backends"
    assert settings().model_load_timeout == 0


def test_automatic_completion_is_switched_off_by_either_flag() -> None:
    assert settings().auto_complete_config
    assert not settings("--disable-auto-complete-config").auto_complete_config
    old = settings("--strict-model-config=true")
    assert not old.auto_complete_config
    assert old.notices == ("--strict-model-config is deprecated. Use --disable-auto-complete-config.",)


def test_the_control_key_is_that_of_the_file_or_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings().control_key == ""
    monkeypatch.setenv("INFER_CONTROL_KEY", "from-the-environment")
    assert settings().control_key == "from-the-environment"
    file = tmp_path / "key"
    file.write_text("from-the-file\n")
    assert settings(f"--control-key-file={file}").control_key == "from-the-file"


def test_the_control_key_is_not_shown() -> None:
    assert "secret" not in repr(ServerSettings(control_key="secret"))


def test_flags_that_are_not_acted_on_are_named_in_one_sentence() -> None:
    notices = settings("--http-thread-count=4", "--cache-config=local,size=1", "--rate-limit=execution_count").notices
    assert notices == ("accepted, but not acted on yet: --http-thread-count, --cache-config, --rate-limit",)


def test_a_guard_that_does_not_guard_is_said_aloud() -> None:
    (notice,) = settings("--http-restricted-api=inference:k=v").notices
    assert notice.endswith("Nothing is protected by --http-restricted-api")


def test_switching_off_what_is_not_there_is_no_broken_promise() -> None:
    assert settings("--allow-sagemaker=false", "--allow-vertex-ai=false").notices == ()


def test_polling_is_named_as_not_acted_on() -> None:
    assert "--model-control-mode" in settings("--model-control-mode=POLL").notices[0]


@pytest.mark.parametrize(
    ("words", "phrases"),
    [
        (["--load-model=a"], ["--load-model", "explicit", "none"]),
        (["--model-control-mode=explicit", "--load-model=*", "--load-model=a"], ["'*'", "alone", "a"]),
        (["--metrics-port=8000"], ["0.0.0.0:8000", "--metrics-port"]),
        (["--http-address=127.0.0.1", "--metrics-address=0.0.0.0", "--metrics-port=8000"], ["8000"]),
        (["--grpc-port=8000"], ["HTTP door and the gRPC door", "0.0.0.0:8000", "--http-port or --grpc-port"]),
        (["--metrics-port=8001"], ["The gRPC door and the metrics port", "--grpc-port or --metrics-port"]),
        (["--grpc-use-ssl=true"], ["--grpc-use-ssl", "--grpc-server-cert and --grpc-server-key"]),
        (["--grpc-use-ssl=true", "--grpc-server-cert=c"], ["--grpc-use-ssl", "give --grpc-server-key."]),
        (["--grpc-use-ssl-mutual=true"], ["--grpc-use-ssl-mutual", "--grpc-root-cert"]),
        (["--backend-config=,a=1"], ["--backend-config"]),
        (["--backend-config=python"], ["--backend-config", "KEY=VALUE"]),
    ],
)
def test_contradictions_are_refused(words: list[str], phrases: list[str]) -> None:
    with pytest.raises(BadOption) as caught:
        settings(*words)
    for phrase in phrases:
        assert phrase in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        ["--metrics-port=8000", "--allow-metrics=false"],
        ["--metrics-port=8000", "--http-address=127.0.0.1", "--metrics-address=127.0.0.2"],
        ["--metrics-port=0", "--http-port=0", "--grpc-port=0"],
        ["--grpc-port=8000", "--allow-grpc=false"],
        ["--grpc-use-ssl=true", "--grpc-server-cert=c", "--grpc-server-key=k"],
        ["--grpc-use-ssl-mutual=true", "--grpc-server-cert=c", "--grpc-server-key=k", "--grpc-root-cert=r"],
        ["--model-control-mode=explicit", "--load-model=*"],
    ],
)
def test_what_only_looks_like_a_contradiction_is_taken(words: list[str]) -> None:
    assert settings(*words)


def test_a_server_without_a_repository_is_refused_with_the_way_out() -> None:
    with pytest.raises(BadOption, match="infer serve --model-repository DIR"):
        from_command_line([])


def test_a_changed_copy_keeps_its_own_metrics_address() -> None:
    assert replace(settings(), http_address="127.0.0.1").metrics_address == "0.0.0.0"
