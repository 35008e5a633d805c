"""A number of responses with a pause before each, from a thread a request."""

import threading
import time
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """COUNT is INT32 [1]; MS is FP32 [1], milliseconds; OUT is INT32 [1], from 0 on, COUNT times."""

    def execute(self, requests: list[Any]) -> None:
        """Leave each request to a thread."""
        for request in requests:
            threading.Thread(target=self._answer, args=(request,), daemon=True).start()

    @staticmethod
    def _answer(request: Any) -> None:  # noqa: ANN401  pb_utils has no types
        count = int(pb_utils.get_input_tensor_by_name(request, "COUNT").as_numpy()[0])
        pause_s = float(pb_utils.get_input_tensor_by_name(request, "MS").as_numpy()[0]) / 1000
        sender = request.get_response_sender()
        for index in range(count):
            time.sleep(pause_s)
            if sender.is_cancelled():
                break
            tensor = pb_utils.Tensor("OUT", np.array([index], np.int32))
            sender.send(pb_utils.InferenceResponse([tensor]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
