"""``infer call MODEL``: one inference from the terminal, or many, or one with many responses."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...tui.client import Client
from ..configuration import load
from ..failures import CommandError, ExitCode
from .options import Context, GrpcUrl, HttpUrl, Model, Output, Timeout, Version
from .output import Format, note, print_json, print_line
from .target import CALL_WAIT_S, output_form, wanted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...tui.inference import Answer, Request, Wishes

Inputs = Annotated[
    list[str] | None,
    typer.Option("-i", "--input", metavar="NAME=VALUE", help="JSON ([1,2], 0.5, text) or @FILE.npy. Repeatable."),
]
Repeated = list[str] | None
Outputs = Annotated[Repeated, typer.Option("--output-name", metavar="NAME", help="Only this output. Repeatable.")]
Parameters = Annotated[Repeated, typer.Option("--param", metavar="KEY=VALUE", help="A request parameter. Repeatable.")]
Shapes = Annotated[
    Repeated, typer.Option("--shape", metavar="NAME=1,16", help="An input's shape, in place of the metadata's.")
]
Datatypes = Annotated[
    Repeated, typer.Option("--dtype", metavar="NAME=FP32", help="An input's datatype, in place of the metadata's.")
]


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    app.command()(call)


def call(
    name: Model,
    inputs: Inputs = None,
    version: Version = "",
    request_id: Annotated[str, typer.Option("--id", metavar="TEXT", help="The request's id.")] = "",
    *,
    outputs: Outputs = None,
    parameters: Parameters = None,
    shapes: Shapes = None,
    datatypes: Datatypes = None,
    stream: Annotated[bool, typer.Option("--stream", help="Print each response as it comes (over gRPC).")] = False,
    repeat: Annotated[
        int, typer.Option("--repeat", metavar="N", min=1, help="Call N times, and say how long it took.")
    ] = 1,
    save: Annotated[str, typer.Option("--save", metavar="FILE.npz", help="Write the outputs for NumPy.")] = "",
    curl: Annotated[bool, typer.Option("--curl", help="Print the curl command that does the same.")] = False,
    url: HttpUrl = None,
    grpc_url: GrpcUrl = None,
    context: Context = None,
    timeout: Timeout = None,
    output: Output = None,
) -> None:
    """Call a model. Shapes and datatypes come from its metadata.

    Without -i the inputs are read from standard input: {"NAME": VALUE, …}, or a whole request document.

    Examples:
    infer call simple -i "INPUT0=[$(seq -s, 16)]" -i INPUT1=@second.npy
    echo '{"INPUT0": [1.5, 2]}' | infer call identity -o json
    infer call identity -i INPUT0=[1,2] --repeat 20 --save answer.npz
    infer call identity -i INPUT0=[1,2] --curl
    infer call identity -i INPUT0=[1,2] --stream -o json
    """
    from ...tui import inference, values  # numpy comes with them
    from ..doors import door, find_doors
    from ..registry import Registry

    configuration = load(context=context)
    seconds = configuration.number("timeout", timeout, CALL_WAIT_S)
    form = output_form(configuration, output)
    wishes = _wishes(request_id, outputs, parameters, shapes, datatypes)
    if stream and repeat > 1:
        raise CommandError(
            "--stream and --repeat exclude each other",
            "a stream is timed by its responses",
            "leave one of them out",
            code=ExitCode.USAGE,
        )
    given = values.from_options(inputs) if inputs else values.from_stdin(sys.stdin)
    doors = find_doors(configuration, wanted(configuration), Registry.of_user(), http=url, grpc=grpc_url)
    client = Client(door(doors.http, "HTTP", "--url"), seconds)
    request = inference.prepare(client, name, version, given, wishes)
    if stream:
        from ...tui.stream import stream as responses

        address = door(doors.grpc, "gRPC", "--grpc-url")
        answers = show_stream(responses(request, address, seconds), form)
        if curl:
            note("# a stream goes over gRPC, which curl does not speak")
    else:
        answers = [show(request, form, repeat=repeat, curl=curl)]
    if save:
        _save(save, answers)


def _wishes(request_id: str, outputs: Repeated, parameters: Repeated, shapes: Repeated, datatypes: Repeated) -> Wishes:
    """What the options ask for. Raises CommandError for one that cannot be read."""
    from ...tui import inference, values

    return inference.Wishes(
        request_id,
        {key: values.literal(text) for key, text in pairs("--param", parameters).items()},
        tuple(outputs or ()),
        {key: _sizes(key, text) for key, text in pairs("--shape", shapes).items()},
        pairs("--dtype", datatypes),
    )


def show(request: Request, form: Format, *, repeat: int, curl: bool) -> Answer:
    """Send a request, print its answer, and where it was sent several times what that took."""
    times: list[float] = []
    answer: Answer | None = None
    for _ in range(repeat):
        began = time.perf_counter()
        answer = request.send()
        times.append(time.perf_counter() - began)
    assert answer is not None  # noqa: S101  repeat is at least 1
    if curl:
        note(request.curl())
    print_answer(answer, form)
    if repeat > 1:
        note(summary(times))
    return answer


def show_stream(responses: Iterable[Answer], form: Format) -> list[Answer]:
    """Print responses as they come; all of them."""
    found: list[Answer] = []
    began = time.perf_counter()
    for answer in responses:
        found.append(answer)
        if form is Format.JSON:
            print_line(answer.document())
        else:
            if form is Format.TABLE:
                note(f"response {len(found)} after {1000 * (time.perf_counter() - began):.1f} ms")
            print_answer(answer, form)
            sys.stdout.flush()
    if not found:
        note("note: the model sent no response")
    return found


def print_answer(answer: Answer, form: Format) -> None:
    """One answer."""
    if form is Format.JSON:
        print_json(answer.document())
    elif form is Format.NAME:
        for tensor in answer.tensors:
            print(tensor.name)
    else:
        print(answer.text())


def summary(times: Sequence[float]) -> str:
    """How long calls took, one after another, in milliseconds."""
    ordered = sorted(times)

    def share(part: float) -> float:
        return 1000 * ordered[min(len(ordered) - 1, int(part * len(ordered)))]

    return (
        f"{len(ordered)} calls: mean {1000 * sum(ordered) / len(ordered):.2f} ms, p50 {share(0.5):.2f}, "
        f"p99 {share(0.99):.2f}, min {share(0):.2f}, max {1000 * ordered[-1]:.2f}; {len(ordered) / sum(ordered):.0f}/s"
    )


def pairs(flag: str, given: list[str] | None) -> dict[str, str]:
    """``KEY=VALUE`` texts as a table. Raises CommandError for one that is not."""
    found: dict[str, str] = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise CommandError(
                f"{flag} '{text}' has no value",
                "it is written NAME=VALUE",
                f"see infer call --help for {flag}",
                code=ExitCode.USAGE,
            )
        found[key] = value
    return found


def _sizes(name: str, text: str) -> list[int]:
    try:
        sizes = [int(size) for size in text.strip("[]").split(",") if size.strip()]
    except ValueError:
        sizes = [-1]
    if min(sizes, default=0) < 0:
        raise CommandError(
            f"--shape {name}={text} is no shape",
            "it is sizes with commas between",
            f"for example: --shape {name}=1,16",
            code=ExitCode.USAGE,
        )
    return sizes


def _save(path: str, answers: list[Answer]) -> None:
    """Write outputs into an .npz; those of several responses are numbered."""
    import numpy as np

    arrays: dict[str, Any] = {}
    for number, answer in enumerate(answers):
        arrays |= {f"{name}.{number}" if len(answers) > 1 else name: array for name, array in answer.arrays().items()}
    try:
        with open(path, "wb") as file:  # noqa: PTH123  NumPy would add .npz to a name without it
            np.savez(file, **arrays)
    except OSError as error:
        raise CommandError(
            f"{path} cannot be written", error.strerror or str(error), "name a file in a folder that you may write"
        ) from error
