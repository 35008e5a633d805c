"""`infer up` is `infer serve` with defaults for a person at a terminal, and knows a server that has what was asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from infer.app.arguments import BadOption
from infer.app.registry import Record
from infer.app.settings import from_command_line
from infer.app.up_flags import chosen_log_file, complete, differences, for_log_file, with_defaults


def running(*arguments: str, folder: str = "/srv") -> Record:
    return Record(name="default", pid=1, arguments=tuple(with_defaults(arguments)), folder=folder)


def test_without_flags_every_sample_is_served_and_can_be_unloaded_by_its_operator_only() -> None:
    settings = from_command_line(with_defaults([]))
    assert settings.model_repository[0].joinpath("simple", "config.pbtxt").is_file()
    assert (settings.model_control_mode, settings.load_model) == ("explicit", ("*",))
    assert not settings.allow_remote_control
    assert not settings.exit_on_error
    assert settings.skip_missing_backends


def test_what_the_user_says_wins() -> None:
    given = ["--model-store", "/mine", "--exit-on-error=true", "--allow-remote-control=true"]
    settings = from_command_line(with_defaults(given))
    assert [str(path) for path in settings.model_repository] == ["/mine"]
    assert settings.exit_on_error
    assert settings.allow_remote_control


def test_an_abbreviated_flag_counts_as_said() -> None:
    settings = from_command_line(with_defaults(["--model-rep", "/mine"]))
    assert [str(path) for path in settings.model_repository] == ["/mine"]


@pytest.mark.parametrize(
    ("given", "mode", "loaded"),
    [
        (["--load-model=simple"], "explicit", ("simple",)),
        (["--model-control-mode=explicit"], "explicit", ()),
        (["--model-control-mode=none"], "none", ()),
        (["--model-control-mode=poll"], "poll", ()),
        (["--model-control-mode=explicit", "--load-model=a", "--load-model=b"], "explicit", ("a", "b")),
    ],
)
def test_who_says_what_is_loaded_says_it_all(given: list[str], mode: str, loaded: tuple[str, ...]) -> None:
    settings = from_command_line(with_defaults(given))
    assert (settings.model_control_mode, settings.load_model) == (mode, loaded)


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (["--allow-remote-control"], ["--allow-remote-control=true"]),
        (["--allow-remote-control", "--id", "x"], ["--allow-remote-control=true", "--id", "x"]),
        (["--allow-remote-control", "false"], ["--allow-remote-control", "false"]),
        (["--allow-remote-control=false"], ["--allow-remote-control=false"]),
        ([], []),
    ],
)
def test_remote_control_may_stand_alone(words: list[str], read: list[str]) -> None:
    assert complete(words) == read


def test_words_that_cannot_be_read_are_left_to_serve_to_refuse() -> None:
    assert with_defaults(["--nonsense"]) == ["--nonsense"]


def test_a_detached_server_writes_to_its_own_file_which_does_not_grow_for_ever() -> None:
    settings = from_command_line(with_defaults(for_log_file([], Path("/state/default.log"))))
    assert settings.log_file == "/state/default.log"
    assert settings.log_file_max_size == 10 << 20
    assert settings.log_file_count == 3


def test_a_log_file_of_the_users_is_used_and_a_limit_of_theirs_is_kept() -> None:
    words = for_log_file(["--log-file=mine.log", "--log-file-max-size=0"], Path("/state/default.log"))
    settings = from_command_line(with_defaults(words))
    assert (settings.log_file, settings.log_file_max_size) == ("mine.log", 0)


def test_the_log_file_is_found_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    other = Path("/state/default.log")
    assert chosen_log_file(["--log-file=mine.log"], other) == tmp_path / "mine.log"
    assert chosen_log_file(["--log-file", "/a", "--log-file", "/b"], other) == Path("/b")
    for words in ([], ["--log-file="], ["--nonsense"]):
        assert chosen_log_file(words, other) == other


def test_a_server_that_has_what_is_asked_does_not_differ() -> None:
    server = running("--http-port=7000", "--model-repository=/a", "--model-repository=/b", "--log-verbose=2")
    assert differences([], server) == []
    assert differences(["--http-port", "7000"], server) == []
    assert differences(["--model-store=/a", "--model-repo=/b"], server) == []
    assert differences(["--grpc-port=8001", "--exit-on-error=false", "--load-model=*"], server) == []


@pytest.mark.parametrize(
    ("asked", "phrase"),
    [
        (["--http-port=7001"], "--http-port is 7000 there, not 7001"),
        (["--model-repository=/b"], "--model-repository is /a there, not /b"),
        (["--model-repository=/a", "--model-repository=/b"], "--model-repository is /a there, not /a, /b"),
        (["--allow-remote-control"], "--allow-remote-control is false there, not true"),
        (["--load-model=simple"], "--load-model is * there, not simple"),
        (["--backend-config=a,b=c"], "--backend-config is not given there, not a,b=c"),
    ],
)
def test_a_flag_that_a_running_server_has_not_is_named_with_both_values(asked: list[str], phrase: str) -> None:
    assert differences(asked, running("--http-port=7000", "--model-repository=/a")) == [phrase]


def test_a_relative_path_is_the_same_from_the_same_folder_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert differences(["--model-repository=m"], running("--model-repository=m", folder=str(tmp_path))) == []
    assert (
        differences([f"--model-repository={tmp_path}/m"], running("--model-repository=m", folder=str(tmp_path))) == []
    )
    assert differences(["--model-repository=m"], running("--model-repository=m", folder="/elsewhere"))


def test_a_bad_flag_is_refused_also_where_a_server_runs() -> None:
    with pytest.raises(BadOption, match="--htp-port"):
        differences(["--htp-port=1"], running())
