"""``infer ctx …``: servers by name, in the user's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..client_settings import COLOURS, OWN, SETTINGS, Value
from ..configuration import Context, load, user_file
from ..contexts import ContextFile
from ..failures import CommandError, ExitCode
from .completion import context_names
from .options import Output, Yes
from .output import Format, note, print_json, print_table
from .tree import Tree

app = Tree(name="ctx")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The context's name.", autocompletion=context_names)]
FIELDS = tuple(setting.name for setting in SETTINGS if setting.in_context)


@app.callback()
def ctx() -> None:
    """Give servers names, and say which one is meant where no address is given.

    Examples:
    infer ctx add prod --url http://127.0.0.1:8002 --read-only
    infer ctx use prod
    infer model list --context prod
    """


@app.command("list")
def list_contexts(output: Output = None) -> None:
    """List contexts; the one in use has a star.

    Examples:
    infer ctx list
    infer ctx list -o name
    """
    file = ContextFile(user_file())
    contexts, current = file.contexts(), in_use(file)
    form = _form(output)
    if form is Format.JSON:
        print_json([_document(context, current) for context in contexts.values()])
    elif form is Format.NAME:
        for name in contexts:
            print(name)
    else:
        cells = [
            [
                "*" if context.name == current else "",
                context.name,
                context.text("url") or context.text("http_url"),
                context.text("kind") or OWN,
                "yes" if context.values.get("read_only") else "no",
            ]
            for context in contexts.values()
        ]
        print_table(("IN USE", "NAME", "URL", "KIND", "READ-ONLY"), cells)
        if not contexts:
            note("note: there is no context; add one: infer ctx add NAME --url http://HOST:8002")


@app.command()
def use(name: Name) -> None:
    """Make a context the one that commands use.

    Examples:
    infer ctx use prod
    """
    file = ContextFile(user_file())
    file.use(name)
    print(name)
    current = in_use(file)
    if current != name:
        found = load(context=None).resolve("context")
        note(f"note: '{current}' stays in use here, because {found.origin} says so")


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits, - _ and .")],
    *,
    url: Annotated[str, typer.Option("--url", metavar="URL", help="The operator port, or unix:/PATH.")] = "",
    http_url: Annotated[str, typer.Option("--http-url", metavar="URL", help="The HTTP port, for infer call.")] = "",
    grpc_url: Annotated[
        str, typer.Option("--grpc-url", metavar="HOST:PORT", help="The gRPC port, for infer call --stream.")
    ] = "",
    metrics_url: Annotated[
        str, typer.Option("--metrics-url", metavar="URL", help="The metrics of a real Triton, for infer top.")
    ] = "",
    kind: Annotated[str, typer.Option("--kind", metavar="own|triton", help="What serves there.")] = "",
    key_file: Annotated[
        str, typer.Option("--key-file", metavar="FILE", help="The file that holds the key for changes.")
    ] = "",
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse to load and unload there.")] = False,
    colour: Annotated[
        str, typer.Option("--colour", metavar="|".join(COLOURS), help="Its colour on the dashboard.")
    ] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Put it in place of one of that name.")] = False,
    use_it: Annotated[bool, typer.Option("--use", help="And make it the one in use.")] = False,
) -> None:
    """Add a context.

    Examples:
    infer ctx add lab --url http://127.0.0.1:8002 --use
    infer ctx add old --url http://127.0.0.1:8000 --metrics-url http://127.0.0.1:8002 --kind triton
    """
    from ..client_settings import BY_NAME, check

    given: dict[str, Value] = {
        "url": url,
        "http_url": http_url,
        "grpc_url": grpc_url,
        "metrics_url": metrics_url,
        "kind": kind,
        "key_file": str(Path(key_file).expanduser().absolute()) if key_file else "",
        "read_only": read_only,
        "colour": colour,
    }
    values = {key: value for key, value in given.items() if value}
    for key, value in values.items():
        try:
            check(BY_NAME[key], value)
        except ValueError as error:
            flag = f"--{key.replace('_', '-')}"
            raise CommandError(
                f"{flag} has a wrong value", str(error), "infer ctx add --help", code=ExitCode.USAGE
            ) from error
    if not url and not http_url:
        raise CommandError(
            "the context leads nowhere",
            "neither --url nor --http-url is given",
            f"for example: infer ctx add {name} --url http://HOST:8002",
            code=ExitCode.USAGE,
        )
    file = ContextFile(user_file())
    file.add(name, values, replace=replace)
    if use_it:
        file.use(name)
    print(name)
    if key_file and not Path(key_file).expanduser().is_file():
        note(f"note: there is no file {key_file} yet")


@app.command()
def remove(name: Name, *, yes: Yes = False) -> None:
    """Forget a context. At a terminal it asks before it forgets the one in use.

    Examples:
    infer ctx remove lab
    """
    import sys

    file = ContextFile(user_file())
    file.get(name)
    if (
        file.current == name
        and not yes
        and sys.stdin.isatty()
        and not typer.confirm(f"'{name}' is in use; forget it?", err=True)
    ):
        raise CommandError("nothing was removed", "the answer was no", f"if you mean it: infer ctx remove {name} --yes")
    was_current = file.remove(name)
    print(name)
    if was_current:
        note("note: it was the one in use; none is now")


@app.command()
def show(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="The one in use where not given.", autocompletion=context_names)
    ] = "",
    output: Output = None,
) -> None:
    """Show one context.

    Examples:
    infer ctx show prod
    infer ctx show -o json
    """
    file = ContextFile(user_file())
    current = in_use(file)
    if not name and not current:
        raise CommandError(
            "no context is in use",
            "neither --context, INFER_CONTEXT nor a file names one",
            "choose one: infer ctx use NAME",
            code=ExitCode.NOT_FOUND,
        )
    context = file.get(name or current)
    form = _form(output)
    if form is Format.JSON:
        print_json(_document(context, current))
    elif form is Format.NAME:
        print(context.name)
    else:
        shown = [("name", context.name), *((key, _shown(value)) for key, value in context.values.items())]
        print_table(("FIELD", "VALUE"), [list(pair) for pair in shown])


def in_use(file: ContextFile) -> str:
    """The context in use: as environment or project say, else as the file does, whether or not it exists."""
    import os

    from ..configuration import project_file, read_project_file

    if os.environ.get("INFER_CONTEXT"):
        return os.environ["INFER_CONTEXT"]
    found = project_file(Path.cwd())
    if found is not None and (named := read_project_file(found).values.get("context")):
        return str(named)
    return file.current


def _form(output: Format | None) -> Format:
    import os

    # Not the whole configuration: it refuses a context that is gone, which these commands are there to mend.
    try:
        return output or Format(os.environ.get("INFER_OUTPUT") or Format.TABLE)
    except ValueError:
        return Format.TABLE


def _document(context: Context, current: str) -> dict[str, Value]:
    values = {name: context.values[name] for name in FIELDS if name in context.values}
    return {"name": context.name, "in_use": context.name == current, "kind": OWN, "read_only": False, **values}


def _shown(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
