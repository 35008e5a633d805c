"""``auto_complete_config``: asking a model what it knows, in a worker that is thrown away, and what counts of it."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import TYPE_CHECKING, Any

from ..api.datatypes import Datatype
from ..api.errors import Internal, InvalidArgument, LoadFailed
from ..api.model_config import ModelConfig
from .worker import frames
from .worker.frames import Frame, Kind

if TYPE_CHECKING:
    from .channel import Channel
    from .waiting import Waiting
    from .zygotes import Spawner

_DATATYPES = frozenset(datatype.config_name for datatype in Datatype)
_OPEN = "TYPE_INVALID"
"""What the configuration says of a tensor that it leaves to the model, which may have left it, too."""
_SCHEDULERS = ("dynamic_batching", "sequence_batching", "ensemble_scheduling")


async def ask_model(
    spawner: Spawner, name: str, hello: dict[str, Any], labels: dict[str, Any], waiting: Waiting
) -> dict[str, Any]:
    """The configuration as the model returns it. Raises LoadFailed with the model's own reason."""
    waiting.phase = "starting its interpreter"
    worker = await spawner.spawn(f"{name}_autocomplete", labels)
    waiting.last_words = lambda: worker.last_words
    answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    def take(frame: Frame, _: Channel) -> None:
        if frame.kind != Kind.STATE or answer.done():
            return
        state = json.loads(frame.payload)
        if state["state"] == "PHASE":
            waiting.enter(state["phase"])
        else:
            answer.set_result(state)

    def died(reason: str) -> None:
        if not answer.done():
            answer.set_exception(LoadFailed(reason))

    worker.on_frame, worker.on_death = take, died
    worker.channel.send(frames.pack_json(Kind.HELLO, 0, hello))
    try:
        state = await answer
    finally:
        worker.kill("its work is done")
        await worker.gone.wait()
        # What waits outlives the worker, which knows it: left as a circle, both would stay until a collection.
        words = worker.last_words
        waiting.last_words = lambda: words
    if state["state"] != "CONFIG":
        raise LoadFailed(state["reason"])
    return state["document"]


def merge_completed(config: ModelConfig, completed: dict[str, Any]) -> ModelConfig:
    """The configuration with what counts of a model's answer: batch size, inputs, outputs, decoupled, scheduler.

    Raises Internal where the answer changes the kind of scheduler, InvalidArgument where it is not a configuration.
    """
    document = copy.deepcopy(config.document)
    for key in ("max_batch_size", "input", "output"):
        if key in completed:
            document[key] = completed[key]
    if "model_transaction_policy" in completed:
        document["model_transaction_policy"] = completed["model_transaction_policy"]
    had = next((key for key in _SCHEDULERS if key in document), "")
    has = next((key for key in _SCHEDULERS if key in completed), "")
    if had and has and had != has:
        msg = (
            f"auto_complete_config of model '{config.name}' sets {has}, but the configuration has {had}; "
            "a model cannot change the kind of its scheduler"
        )
        raise Internal(msg)
    if has and not had:
        document[has] = completed[has]
    unreadable = f"auto_complete_config of model '{config.name}' returned a configuration that cannot be read"
    for kind in ("input", "output"):
        problem = _problem(kind, document.get(kind, []))
        if problem:
            msg = f"{unreadable}: {problem}"
            raise InvalidArgument(msg)
    try:
        return ModelConfig.from_document(document)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        msg = f"{unreadable}: {exc!r}"
        raise InvalidArgument(msg) from exc


def _problem(kind: str, entries: Any) -> str:  # noqa: ANN401  what a model has made of JSON
    """What is wrong with the inputs or outputs that a model has given itself, or ""."""
    if not isinstance(entries, list):
        return f"{kind} is {entries!r:.80} and no list"
    found: list[Any] = entries  # pyright: ignore[reportUnknownVariableType]
    for index, entry in enumerate(found):
        place = f"{kind}[{index}]"
        if not isinstance(entry, dict) or not {"name", "data_type", "dims"} <= entry.keys():
            return f"{place} is {entry!r:.80}; every {kind} needs name, data_type (such as TYPE_FP32) and dims"
        fields: dict[str, Any] = entry  # pyright: ignore[reportUnknownVariableType]
        name, given, dims = f"{place}, '{fields['name']}',", fields["data_type"], fields["dims"]
        if not isinstance(given, str) or given not in (*_DATATYPES, _OPEN):
            near = f"TYPE_{given}" if f"TYPE_{given}" in _DATATYPES else "TYPE_FP32"
            return f"{name} has data_type {given!r:.80}, which is none; write it as in '{near}'"
        if not isinstance(dims, list) or not all(isinstance(dim, int) for dim in dims):  # pyright: ignore[reportUnknownVariableType]
            return f"{name} has dims {dims!r:.80}; give a list of whole numbers, -1 for any"
    return ""
