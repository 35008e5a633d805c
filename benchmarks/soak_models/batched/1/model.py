"""The tensors that came in, a millisecond later."""

import time
from typing import Any

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """OUT is IN, FP32 [batch, n]."""

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer each request of the batch with its own tensor."""
        time.sleep(0.001)
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(request, "IN").as_numpy())]
            )
            for request in requests
        ]
