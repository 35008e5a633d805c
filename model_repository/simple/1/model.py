"""OUTPUT0 is the sum and OUTPUT1 the difference of INPUT0 and INPUT1, element by element."""

from __future__ import annotations

from typing import Any

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """The class that the Python backend looks for; it makes one object an instance."""

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer every request, in order. Tensors are INT32 of shape [batch, 16]."""
        responses: list[Any] = []
        for request in requests:
            left = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            right = pb_utils.get_input_tensor_by_name(request, "INPUT1").as_numpy()
            outputs = [pb_utils.Tensor("OUTPUT0", left + right), pb_utils.Tensor("OUTPUT1", left - right)]
            responses.append(pb_utils.InferenceResponse(output_tensors=outputs))
        return responses
