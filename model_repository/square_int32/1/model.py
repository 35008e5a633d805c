"""Answers n with n responses of n, none for 0 or less: as many responses as the request says."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

THREADS = 8


class TritonPythonModel:
    """The class that the Python backend looks for; it makes one object an instance."""

    def initialize(self, args: dict[str, str]) -> None:  # noqa: ARG002  the backend's signature
        """Make the threads that send, so that a reader who takes his time delays nobody but himself.

        A pool bounds what runs, not what waits: requests beyond it queue in here, where neither queue limits nor
        timeouts of the server reach them. The sample ``llm_stream`` leaves them with the server.
        """
        self._pool = ThreadPoolExecutor(THREADS, "square")

    def execute(self, requests: list[Any]) -> None:
        """Leave each request to the pool; a decoupled model returns nothing."""
        for request in requests:
            number = int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])
            self._pool.submit(_square, number, request.get_response_sender())

    def finalize(self) -> None:
        """Wait until every response is sent."""
        self._pool.shutdown()


def _square(number: int, sender: Any) -> None:  # noqa: ANN401  pb_utils' sender
    for _ in range(number):
        if sender.is_cancelled():
            break
        tensor = pb_utils.Tensor("OUT", np.array([number], np.int32))
        sender.send(pb_utils.InferenceResponse(output_tensors=[tensor]))
    # The flag may also go with the last response; apart from it, it does for none as well.
    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
