"""``auto_complete_config``: asking a model what it knows, in a worker that is thrown away, and what counts of it."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import TYPE_CHECKING, Any

from ..api.errors import Internal, InvalidArgument, LoadFailed
from ..api.model_config import ModelConfig
from .worker import frames
from .worker.frames import Frame, Kind

if TYPE_CHECKING:
    from .channel import Channel
    from .waiting import Waiting
    from .zygotes import Spawner

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
    try:
        return ModelConfig.from_document(document)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        msg = (
            f"auto_complete_config of model '{config.name}' returned a configuration that cannot be read: {exc!r}; "
            "every input and output needs name, data_type (such as TYPE_FP32) and dims"
        )
        raise InvalidArgument(msg) from exc
