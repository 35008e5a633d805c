"""What ``infer doctor`` finds: verdicts as pure functions of facts. The facts are gathered in ``facts``."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .failures import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ..backends.catalog import BackendInfo

OLDEST_PYTHON = (3, 11)
LEAST_FILES = 1024
GOOD_FILES = 8192
LEAST_SHM = 64 << 20
LEAST_MEMORY = 512 << 20
_MIB = 1 << 20
_OPEN_TO_OTHERS = 0o077


class Verdict(enum.StrEnum):
    """How a check ended."""

    PASS = "PASS"  # noqa: S105  a verdict, no secret
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the doctor: what was looked at, what was found, and a command that mends it where one is known."""

    name: str
    verdict: Verdict
    text: str
    fix: str = ""


def made(name: str, check: Callable[[], Iterable[Result]]) -> list[Result]:
    """The findings of a check; what it raises is one too."""
    try:
        return list(check())
    except CommandError as error:
        return [Result(name, Verdict.FAIL, f"{error.what}: {error.why}", error.fix)]
    except (OSError, ValueError, LookupError, ImportError, RuntimeError) as error:
        # One check that cannot be made hides no other.
        return [Result(name, Verdict.WARN, f"could not be looked at: {type(error).__name__}: {error}")]


def python(version: Sequence[int], executable: str) -> Result:
    """The interpreter."""
    text = f"{'.'.join(map(str, version[:3]))} at {executable}"
    if tuple(version[:2]) < OLDEST_PYTHON:
        return Result("python", Verdict.FAIL, f"{text} is too old", "install Python 3.11 or later")
    return Result("python", Verdict.PASS, text)


def port(number: int, door: str, holder: str | None) -> Result:
    """One port: ``holder`` is who listens there, None where it is free."""
    name = f"port {number}"
    if holder is None:
        return Result(name, Verdict.PASS, f"free for {door}")
    if holder.startswith("infer"):
        return Result(name, Verdict.PASS, f"served by {holder}")
    flag = {8000: "--http-port", 8001: "--grpc-port"}.get(number, "--metrics-port")
    return Result(name, Verdict.WARN, f"taken by {holder}", f"give {door} another: infer serve {flag}=PORT …")


def open_files(soft: int, hard: int) -> Result:
    """How many files and connections a process may have open; below 0 is any number."""
    if soft < 0 or soft >= GOOD_FILES:
        return Result("open files", Verdict.PASS, "unlimited" if soft < 0 else str(soft))
    wanted = GOOD_FILES if hard < 0 else min(hard, GOOD_FILES)
    fix = f"ulimit -n {wanted}" if wanted > soft else ""
    verdict = Verdict.WARN if soft >= LEAST_FILES else Verdict.FAIL
    return Result("open files", verdict, f"{soft} at a time; every connection and worker takes some", fix)


def shared_memory(free: int | None, *, memfd: bool) -> list[Result]:
    """The folder of regions that clients share, and memfds, in which tensors travel to workers."""
    if free is None:
        first = Result("/dev/shm", Verdict.WARN, "is not there or not writable; models that use it fail")  # noqa: S108  looked at, not written
    elif free < LEAST_SHM:
        text = f"has {free // _MIB} MiB free; PyTorch and shared-memory clients want more"
        first = Result("/dev/shm", Verdict.WARN, text, "in a container: docker run --shm-size=1g …")  # noqa: S108  looked at, not written
    else:
        first = Result("/dev/shm", Verdict.PASS, f"{free // _MIB} MiB free")  # noqa: S108  looked at, not written
    if memfd:
        return [first, Result("memfd", Verdict.PASS, "sealed memory can be passed to workers")]
    return [first, Result("memfd", Verdict.FAIL, "this kernel gives no sealed memfd, which large tensors travel in")]


def limits(memory: int | None, cpus: float | None, cores: int) -> list[Result]:
    """What the control group allows; None is no limit."""
    if memory is None:
        first = Result("memory limit", Verdict.PASS, "none")
    else:
        low = memory < LEAST_MEMORY
        text = f"{memory // _MIB} MiB"
        first = Result(
            "memory limit", Verdict.WARN if low else Verdict.PASS, f"{text}; large models will not fit" if low else text
        )
    if cpus is None:
        return [first, Result("cpu limit", Verdict.PASS, f"none, {cores} cores")]
    low = cpus < 1
    text = f"{cpus:g} of {cores} cores"
    return [
        first,
        Result(
            "cpu limit",
            Verdict.WARN if low else Verdict.PASS,
            f"{text}; the server is held up in between" if low else text,
        ),
    ]


def runtimes(installed: Iterable[str]) -> list[Result]:
    """Packages that own the same module: with both, what is imported is what was installed last."""
    both = {"onnxruntime", "onnxruntime-gpu"} <= set(installed)
    if both:
        fix = "pip uninstall onnxruntime && pip install --force-reinstall --no-deps onnxruntime-gpu"
        return [Result("onnxruntime", Verdict.FAIL, "onnxruntime and onnxruntime-gpu are both installed", fix)]
    return []


def backends(infos: Iterable[BackendInfo]) -> list[Result]:
    """Which backends can be used; a missing one is a warning, since not everybody needs every one."""
    return [
        Result(f"backend {info.name}", Verdict.PASS, "available")
        if info.available
        else Result(f"backend {info.name}", Verdict.WARN, info.reason, _command(info.reason))
        for info in infos
    ]


def _command(sentence: str) -> str:
    """The command in a sentence, which stands between backquotes."""
    return sentence.split("`")[1] if sentence.count("`") >= 2 else ""  # noqa: PLR2004  one opens, one closes


def gpu(names: Sequence[str], reason: str) -> Result:
    """GPUs by name, or why there are none."""
    if names:
        return Result("gpu", Verdict.PASS, ", ".join(names))
    return Result("gpu", Verdict.PASS, f"none: {reason}")


def folder(name: str, path: str, *, there: bool, writable: bool) -> Result:
    """A folder of this user's that is made when it is needed."""
    if writable:
        return Result(name, Verdict.PASS, path if there else f"{path} (made when it is needed)")
    if there:
        return Result(name, Verdict.FAIL, f"{path} cannot be written", f"sudo chown -R $(id -u) {path}")
    return Result(name, Verdict.FAIL, f"{path} cannot be made", f"sudo install -d -o $(id -u) -m 700 {path}")


def key_file(path: str, mode: int | None) -> Result:
    """The file with a context's key."""
    if mode is None:
        return Result("key file", Verdict.WARN, f"{path} is not there", f"write the server's key into {path}")
    if mode & _OPEN_TO_OTHERS:
        return Result("key file", Verdict.WARN, f"{path} can be read by others", f"chmod 600 {path}")
    return Result("key file", Verdict.PASS, path)


def locale(encoding: str) -> Result:
    """How text is written here."""
    if encoding.lower().replace("-", "") == "utf8":
        return Result("locale", Verdict.PASS, "UTF-8")
    return Result(
        "locale", Verdict.WARN, f"{encoding}: the dashboard's lines are drawn in UTF-8", "export LC_ALL=C.UTF-8"
    )


def terminal(environment: Mapping[str, str], *, is_terminal: bool) -> Result:
    """What the dashboard is shown on."""
    term = environment.get("TERM", "")
    if not is_terminal:
        return Result("terminal", Verdict.PASS, "none: commands print without colours")
    if term in ("", "dumb"):
        return Result("terminal", Verdict.WARN, f"TERM is '{term}': no dashboard here", "export TERM=xterm-256color")
    colours = "NO_COLOR" not in environment
    rich = environment.get("COLORTERM") in ("truecolor", "24bit") or "256color" in term
    if colours and not rich:
        return Result("terminal", Verdict.WARN, f"{term}: few colours", "export TERM=xterm-256color")
    return Result("terminal", Verdict.PASS, term if colours else f"{term}, without colours (NO_COLOR)")


def clock(now: float, newest_file: float) -> Result:
    """The clock against the newest time that this installation has seen: a server with a wrong one logs nonsense."""
    if now + 60 < newest_file:
        return Result("clock", Verdict.WARN, "it is behind the files of this installation", "timedatectl status")
    return Result("clock", Verdict.PASS, "plausible")


def servers(live: Sequence[str]) -> Result:
    """The servers of this user. What a killed one left is cleared away by who looks."""
    return Result("servers", Verdict.PASS, ", ".join(live) or "none runs")
