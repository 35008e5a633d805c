"""Where the settings of commands come from, which place wins, and how a wrong file is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infer.app.configuration import MASK, Configuration, load, project_file, user_file
from infer.app.failures import CommandError, ExitCode

if TYPE_CHECKING:
    from pathlib import Path

USER = """
# mine
context = "lab"
timeout = 10
output = "json"

[contexts.lab]
url = "http://lab:8002"
timeout_is = "not here"

[contexts.prod]
url = "http://prod:8002"
read_only = true
"""


class Machine:
    """A home, a project in it, and an environment."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "work" / "project"
        self.inside = self.project / "a" / "b"
        self.inside.mkdir(parents=True)
        self.environment = {"HOME": str(self.home)}

    def user(self, text: str) -> Path:
        path = user_file(self.environment)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def infer_toml(self, text: str) -> Path:
        path = self.project / "infer.toml"
        path.write_text(text)
        return path

    def load(self, context: str | None = None, **environment: str) -> Configuration:
        return load(context=context, environment={**self.environment, **environment}, folder=self.inside)

    def refusal(self, context: str | None = None, **environment: str) -> CommandError:
        with pytest.raises(CommandError) as caught:
            self.load(context, **environment)
        return caught.value


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_nothing_anywhere_is_the_defaults(machine: Machine) -> None:
    configuration = machine.load()
    assert configuration.context is None
    assert {one.origin for one in configuration.all()} == {"default"}
    assert configuration.text("url") == ""
    assert configuration.number("timeout", None, 30.0) == 30.0
    assert configuration.number("interval", None, 5.0) == 1.0
    assert not configuration.boolean("read_only")


def test_the_strongest_place_wins_one_after_another(machine: Machine) -> None:
    path = machine.user('context = "lab"\nurl = "http://user"\n[contexts.lab]\nurl = "http://context"\n')
    project = machine.infer_toml('url = "http://project"\n')
    everything = machine.load(INFER_URL="http://environment")
    assert everything.resolve("url", "http://flag").origin == "--url"
    assert everything.resolve("http_url", "x").origin == "--http-url"
    assert (everything.text("url"), everything.resolve("url").origin) == ("http://environment", "INFER_URL")
    below = machine.load()
    assert (below.text("url"), below.resolve("url").origin) == ("http://project", f"{project}:1")
    project.unlink()
    below = machine.load()
    assert (below.text("url"), below.resolve("url").origin) == ("http://context", f"context 'lab' in {path}")
    machine.user('url = "http://user"\n')
    below = machine.load()
    assert (below.text("url"), below.resolve("url").origin) == ("http://user", f"{path}:1")


@pytest.mark.parametrize(
    ("flag", "environment", "project", "chosen"),
    [
        ("flagged", "named", 'context = "near"', "flagged"),
        (None, "named", 'context = "near"', "named"),
        (None, "", 'context = "near"', "near"),
        (None, "", "", "own"),
        ("", "", "", None),
    ],
)
def test_the_context_itself_is_chosen_by_the_strongest_place(
    machine: Machine, flag: str | None, environment: str, project: str, chosen: str | None
) -> None:
    tables = "".join(f'[contexts.{name}]\nurl = "http://{name}"\n' for name in ("flagged", "named", "near", "own"))
    machine.user(f'context = "own"\n{tables}')
    machine.infer_toml(project)
    configuration = machine.load(flag, INFER_CONTEXT=environment)
    assert (configuration.context.name if configuration.context else None) == chosen
    assert configuration.text("url") == (f"http://{chosen}" if chosen else "")
    if flag:
        assert configuration.resolve("context").origin == "--context"


def test_an_unknown_context_is_not_found_with_the_nearest_name(machine: Machine) -> None:
    machine.user('[contexts.production]\nurl = "x"\n')
    failure = machine.refusal("prodution")
    assert failure.code is ExitCode.NOT_FOUND
    assert "did you mean 'production'" in failure.fix
    assert "--context names it" in failure.why
    assert "INFER_CONTEXT names it" in machine.refusal(INFER_CONTEXT="zzz").why
    machine.infer_toml('\ncontext = "gone"')
    assert "infer.toml:2 names it" in machine.refusal().why


def test_an_empty_variable_is_no_value(machine: Machine) -> None:
    assert machine.load(INFER_TIMEOUT="", INFER_URL="").resolve("timeout").layer == "default"


def test_a_wrong_variable_is_named_and_how_to_be_rid_of_it(machine: Machine) -> None:
    failure = machine.refusal(INFER_TIMEOUT="soon")
    assert failure.code is ExitCode.USAGE
    assert "INFER_TIMEOUT=soon" in failure.why
    assert failure.fix == "unset INFER_TIMEOUT"


def test_values_have_their_types(machine: Machine) -> None:
    machine.infer_toml('timeout = 5\nread_only = true\noutput = "name"\ninterval = 0.5\n')
    configuration = machine.load(INFER_READ_ONLY="no")
    assert configuration.number("timeout", None, 30.0) == 5.0
    assert configuration.number("timeout", 7.0, 30.0) == 7.0
    assert not configuration.boolean("read_only")
    assert configuration.boolean("read_only", flag=True)
    assert configuration.text("output") == "name"
    assert [configuration.resolve(name).shown for name in ("timeout", "interval", "read_only")] == ["5", "0.5", "false"]


def test_a_secret_is_masked(machine: Machine) -> None:
    found = machine.load(INFER_CONTROL_KEY="s3cret").resolve("control_key")
    assert (found.value, found.shown, found.origin) == ("s3cret", MASK, "INFER_CONTROL_KEY")
    assert machine.load().resolve("control_key").shown == ""


@pytest.mark.parametrize(
    ("text", "line", "phrases"),
    [
        ("\ntimeot = 1\n", 2, ["'timeot'", "did you mean timeout?"]),
        ("xyz = 1\n", 1, ["'xyz'", "the keys are"]),
        ('timeout = "soon"\n', 1, ["'timeout'", "a number of seconds above 0, got 'soon'"]),
        ("# a\n\ntimeout=-1\n", 3, ["above 0, got -1"]),
        ('output = "yaml"\n', 1, ["one of table, json, name"]),
        ('key_file = "/x"\n', 1, ["'key_file'", "not one that stands here"]),
        ('control_key = "x"\n', 1, ["not one that stands here"]),
        ('[contexts.a]\nurl = "x"\n', 1, ["'contexts'"]),
    ],
)
def test_a_wrong_project_file_is_refused_with_line_key_and_reason(
    machine: Machine, text: str, line: int, phrases: list[str]
) -> None:
    path = machine.infer_toml(text)
    failure = machine.refusal()
    assert failure.code is ExitCode.USAGE
    assert f"{path}:{line}:" in failure.what or "contexts" in failure.what
    assert failure.fix == f"mend it with: ${{EDITOR:-vi}} {path}"
    for phrase in phrases:
        assert phrase in str(failure)


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        (USER, [":9:", "'timeout_is' in [contexts.lab]", "it is no setting"]),
        ('[contexts.a]\nkind = "tritn"\n', [":2:", "'kind' in [contexts.a]", "one of own, triton"]),
        ("[contexts.a]\ntimeout = 3\n", [":2:", "not one that stands here"]),
        ('[contexts."a b"]\nurl = "x"\n', ["'a b' in [contexts]", "letters, digits"]),
        ("contexts = 3\n", [":1:", "'contexts'", "it must hold tables"]),
        ("[contexts]\na = 3\n", [":2:", "'a' in [contexts]"]),
        ('control_key = "x"\n', [":1:", "not one that stands here"]),
    ],
)
def test_a_wrong_user_file_is_refused_with_line_key_and_reason(machine: Machine, text: str, phrases: list[str]) -> None:
    machine.user(text)
    failure = machine.refusal()
    assert failure.code is ExitCode.USAGE
    for phrase in phrases:
        assert phrase in str(failure)


def test_what_is_no_toml_is_refused_with_the_place(machine: Machine) -> None:
    path = machine.infer_toml("timeout = \n")
    failure = machine.refusal()
    assert failure.what == f"{path} cannot be read"
    assert "line 1" in failure.why
    path.write_bytes(b"\xff\xfe")
    assert "cannot be read" in machine.refusal().what


def test_a_file_that_may_not_be_read_is_refused_with_the_reason(machine: Machine) -> None:
    path = machine.user("")
    path.unlink()
    path.mkdir()
    assert machine.refusal().why == "Is a directory"


def test_the_project_file_is_the_nearest_one_up_the_tree(machine: Machine) -> None:
    assert project_file(machine.inside) is None
    path = machine.infer_toml("")
    assert project_file(machine.inside) == path
    nearer = machine.inside / "infer.toml"
    nearer.touch()
    assert project_file(machine.inside) == nearer


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"HOME": "/home/me"}, "/home/me/.config/infer/config.toml"),
        ({"HOME": "/home/me", "XDG_CONFIG_HOME": "/etc/me"}, "/etc/me/infer/config.toml"),
        ({"HOME": "/home/me", "XDG_CONFIG_HOME": "relative"}, "/home/me/.config/infer/config.toml"),
    ],
)
def test_the_user_file_is_where_the_xdg_rules_say(environment: dict[str, str], path: str) -> None:
    assert str(user_file(environment)) == path
