"""Goes on with PROMPT, a response a character: for several requests at once, but no more of them than it can bear."""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from .network import Network, Text

MAX_TOKENS = 64
TEMPERATURE = 0.5


class TritonPythonModel:
    """The class that the Python backend looks for; it makes one object an instance."""

    def initialize(self, args: dict[str, str]) -> None:
        """Read the weights once an instance, and how many texts may be written at the same time."""
        parameters = json.loads(args["model_config"])["parameters"]
        self._limit = int(parameters["MAX_GENERATIONS"]["string_value"])
        self._free = threading.Semaphore(self._limit)
        self._network = Network.read(Path(__file__).with_name("weights.npz"))

    def execute(self, requests: list[Any]) -> None:
        """Start a thread a request, as soon as fewer than the limit are at work; return without waiting for them.

        Waiting here for a free place is what bounds the model: until this returns the instance is busy, and further
        requests wait in the server's queue, where limits, timeouts, priorities and metrics see them. Threads let one
        text begin while another is being written. They make none faster unless the framework lets go of Python's lock
        while it computes, as those for GPUs do; a model of arrays this small computes one token at a time.

        ``async execute`` would do as well for a framework that is awaited. Numpy is not: each step would hold the
        event loop, and so would a response to a client that reads slowly.
        """
        for request in requests:
            sender = request.get_response_sender()
            try:
                text, count = self._begin(request)
            except ValueError as exc:
                error = pb_utils.TritonError(str(exc), pb_utils.TritonError.INVALID_ARG)
                sender.send(pb_utils.InferenceResponse(error=error), pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
                continue
            self._free.acquire()
            threading.Thread(target=self._write, args=(sender, text, count)).start()

    def finalize(self) -> None:
        """Wait until every text is written: all places are free."""
        for _ in range(self._limit):
            self._free.acquire()

    def _begin(self, request: Any) -> tuple[Text, int]:  # noqa: ANN401  pb_utils' request
        """The text and how many characters it is to have. Raises ValueError that says which input is wrong."""
        count = int(_given(request, "MAX_TOKENS", MAX_TOKENS))
        if count < 1:
            message = f"MAX_TOKENS must be at least 1, not {count}"
            raise ValueError(message)
        temperature = float(_given(request, "TEMPERATURE", TEMPERATURE))
        if not 0 <= temperature < math.inf:
            message = f"TEMPERATURE must be a number from 0 (always the likeliest character) up, not {temperature}"
            raise ValueError(message)
        seed = _given(request, "SEED", None)
        if seed is not None and seed < 0:
            message = f"SEED must be at least 0, not {seed}"
            raise ValueError(message)
        prompt = _given(request, "PROMPT", b"").decode(errors="replace")
        return Text(self._network, prompt, temperature, seed), count

    def _write(self, sender: Any, text: Text, count: int) -> None:  # noqa: ANN401  pb_utils' sender
        """Send character after character until there are enough or nobody reads any more."""
        try:
            for left in reversed(range(count)):
                if sender.is_cancelled():
                    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
                    return
                token = pb_utils.Tensor("TEXT", np.array([text.next_character().encode()], np.object_))
                flags = 0 if left else pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
                sender.send(pb_utils.InferenceResponse(output_tensors=[token]), flags)
        finally:
            self._free.release()


def _given(request: Any, name: str, otherwise: Any) -> Any:  # noqa: ANN401  whatever the input holds
    """The one element of an input, or ``otherwise`` where the request leaves it out."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return otherwise if tensor is None else tensor.as_numpy().ravel()[0]
