"""Every Python that the metadata names can run the code: none needs what another has not yet, or has no more."""

from __future__ import annotations

import ast
import re
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDERS = ("app", "backends", "benchmarks", "model_repository", "packaging", "server", "tests", "tui")
GONE = frozenset({
    # with Python 3.12
    "asynchat", "asyncore", "distutils", "imp", "smtpd",
    # with Python 3.13
    "aifc", "audioop", "cgi", "cgitb", "chunk", "crypt", "imghdr", "lib2to3", "mailcap", "msilib", "nis", "nntplib",
    "ossaudiodev", "pipes", "sndhdr", "spwd", "sunau", "telnetlib", "uu", "xdrlib",
})  # fmt: skip
"""Modules of Python 3.11's standard library that a newer one lacks."""
GONE_NAMES = frozenset({
    # with Python 3.12
    "importlib.find_loader", "pkgutil.ImpImporter", "pkgutil.ImpLoader", "ssl.wrap_socket", "ssl.match_hostname",
    # with Python 3.13
    "locale.resetlocale",
    # with Python 3.14
    "ast.Bytes", "ast.Ellipsis", "ast.NameConstant", "ast.Num", "ast.Str", "asyncio.AbstractChildWatcher",
    "asyncio.get_child_watcher", "asyncio.set_child_watcher", "importlib.abc.ResourceReader",
    "importlib.abc.Traversable", "pkgutil.find_loader", "pkgutil.get_loader", "pty.master_open", "pty.slave_open",
    "urllib.request.FancyURLopener", "urllib.request.URLopener",
})  # fmt: skip
"""Names of Python 3.11's standard library that a newer one lacks, as one writes them."""
NAMES = "|".join(name.rpartition(".")[2] for name in sorted(GONE_NAMES))
WORDS = re.compile(rf"\b(import|from)\b.*\b({'|'.join(sorted(GONE))})\b|\b({NAMES})\b")


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, Any]:
    """The table [project] of pyproject.toml."""
    return tomllib.loads((root / "pyproject.toml").read_text())["project"]


def sources(root: Path) -> list[Path]:
    """Every Python file of the repository."""
    inner = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py"))]
    return [root / "__init__.py", root / "__main__.py", *inner]


def dated(source: str) -> Iterator[str]:
    """What of a module's imports and dotted names newer Pythons have no more."""
    if not WORDS.search(source):
        return  # most files, and reading their syntax takes seconds
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in GONE_NAMES:
            names = [ast.unparse(node)]
        else:
            continue
        for name in names:
            if name in GONE_NAMES or name.partition(".")[0] in GONE:
                yield f"{name} in line {node.lineno}"


@pytest.mark.parametrize(
    "source",
    [
        "import imp",
        "import distutils.version",
        "from distutils.version import LooseVersion",
        "from cgi import parse_header",
        "def f():\n    import pipes",
        "from importlib.abc import Traversable",
        "import ssl\nssl.wrap_socket(None)",
        "import asyncio\nasyncio.get_child_watcher()",
    ],
)
def test_what_newer_pythons_lack_is_found(source: str) -> None:
    assert list(dated(source))


@pytest.mark.parametrize(
    "source",
    [
        "from .imp import x",
        "from . import cgi",
        "import important",
        "crypt.key = 1",
        "from importlib.abc import Loader",
    ],
)
def test_what_only_looks_like_it_is_passed_over(source: str) -> None:
    assert not list(dated(source))


def test_no_code_needs_what_a_newer_python_lacks(root: Path) -> None:
    found = [f"{path.relative_to(root)}: {each}" for path in sources(root) for each in dated(path.read_text())]
    assert not found


def test_the_metadata_name_the_oldest_python_and_every_one_up_to_the_newest_tried(project: dict[str, Any]) -> None:
    found = [re.fullmatch(r"Programming Language :: Python :: 3\.(\d+)", line) for line in project["classifiers"]]
    minors = [int(match[1]) for match in found if match]
    assert minors == list(range(minors[0], minors[0] + len(minors)))
    assert project["requires-python"] == f">=3.{minors[0]}"
