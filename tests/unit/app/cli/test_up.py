"""`infer up` is `infer serve` with defaults for a person at a terminal."""

from __future__ import annotations

from infer.app.cli.up import with_defaults
from infer.app.settings import from_command_line


def test_without_a_repository_the_samples_are_served() -> None:
    settings = from_command_line(with_defaults([]))
    assert settings.model_repository[0].joinpath("simple", "config.pbtxt").is_file()
    assert not settings.exit_on_error
    assert settings.skip_missing_backends


def test_what_the_user_says_wins() -> None:
    settings = from_command_line(with_defaults(["--model-store", "/mine", "--exit-on-error=true"]))
    assert [str(path) for path in settings.model_repository] == ["/mine"]
    assert settings.exit_on_error


def test_an_abbreviated_flag_counts_as_said() -> None:
    settings = from_command_line(with_defaults(["--model-rep", "/mine"]))
    assert [str(path) for path in settings.model_repository] == ["/mine"]
