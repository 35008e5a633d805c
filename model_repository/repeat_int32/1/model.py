"""Sends IN back element by element: responses from a thread, some of them after ``execute`` has returned."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

MS = 0.001


class TritonPythonModel:
    """The class that the Python backend looks for; it makes one object an instance."""

    def initialize(self, args: dict[str, str]) -> None:  # noqa: ARG002  the backend's signature
        """Nothing runs yet."""
        self._threads: set[threading.Thread] = set()

    def execute(self, requests: list[Any]) -> None:
        """Start a thread a request and return after WAIT ms; a decoupled model returns nothing.

        When this returns the instance is free: the server hands over the next request, whether or not the threads are
        done. As many run as there are requests under way; the sample ``llm_stream`` bounds their number.
        """
        for request in requests:
            values, delays, wait = (
                pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in ("IN", "DELAY", "WAIT")
            )
            thread = threading.Thread(target=self._repeat, args=(request.get_response_sender(), values, delays))
            self._threads.add(thread)
            thread.start()
            time.sleep(float(wait[0]) * MS)

    def finalize(self) -> None:
        """Wait until every response is sent."""
        for thread in list(self._threads):
            thread.join()

    def _repeat(self, sender: Any, values: Any, delays: Any) -> None:  # noqa: ANN401  pb_utils' sender, numpy arrays
        """Send what one request asks for, and the final flag apart from it, however that ends."""
        if len(values) == len(delays):
            for index, (value, delay) in enumerate(zip(values, delays, strict=True)):
                time.sleep(float(delay) * MS)
                if sender.is_cancelled():
                    break
                out = pb_utils.Tensor("OUT", np.array([value], np.int32))
                idx = pb_utils.Tensor("IDX", np.array([index], np.uint32))
                sender.send(pb_utils.InferenceResponse(output_tensors=[out, idx]))
        else:
            message = f"IN has {len(values)} elements and DELAY {len(delays)}; give a delay in ms for each element"
            error = pb_utils.TritonError(message, pb_utils.TritonError.INVALID_ARG)
            sender.send(pb_utils.InferenceResponse(error=error))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        self._threads.discard(threading.current_thread())
