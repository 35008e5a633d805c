"""SUM is what ``square_int32`` sends for the numbers of IN, added up: a call to a decoupled model, call after call."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """The class that the Python backend looks for; it makes one object an instance."""

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer every request, in order. IN is INT32 of any length, SUM INT64 [1]."""
        responses: list[Any] = []
        for request in requests:
            numbers = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            try:
                total = sum(_asked(number) for number in numbers)
            except pb_utils.TritonModelException as exc:
                responses.append(pb_utils.InferenceResponse(error=pb_utils.TritonError(str(exc))))
            else:
                tensor = pb_utils.Tensor("SUM", np.array([total], np.int64))
                responses.append(pb_utils.InferenceResponse(output_tensors=[tensor]))
        return responses


def _asked(number: Any) -> int:  # noqa: ANN401  a numpy scalar
    """The sum of all responses to one number. Raises TritonModelException where one is an error."""
    call = pb_utils.InferenceRequest(
        model_name="square_int32",
        inputs=[pb_utils.Tensor("IN", np.array([number], np.int32))],
        requested_output_names=["OUT"],
    )
    total = 0
    for response in call.exec(decoupled=True):
        if response.has_error():
            raise pb_utils.TritonModelException(response.error().message())
        # The response that carries nothing but the final flag has no tensors.
        if response.output_tensors():
            total += int(pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy()[0])
    return total
