"""Takes a while for each request, to be killed in the middle of it, and says in which process it runs."""

import os
import time
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """OUT is IN, INT32 [n]; PID is the worker's process id."""

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer after two milliseconds."""
        time.sleep(0.002)
        return [self._answer(request) for request in requests]

    @staticmethod
    def _answer(request: Any) -> Any:  # noqa: ANN401  pb_utils has no types
        number = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        own = np.array([os.getpid()], np.int32)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", number), pb_utils.Tensor("PID", own)])
