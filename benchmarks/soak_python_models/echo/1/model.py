"""The tensor that came in."""

from typing import Any

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """OUT is IN, INT32 [n]."""

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer each request with its own tensor."""
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(request, "IN").as_numpy())]
            )
            for request in requests
        ]
