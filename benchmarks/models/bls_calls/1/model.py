"""Calls another model, one call after the other."""

from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """COUNT is INT32 [1]: how many calls of `simple`; RIGHT is how many of them gave the right sum."""

    def execute(self, requests: list[Any]) -> list[Any]:
        """Do what each request asks for."""
        return [self._answer(request) for request in requests]

    @staticmethod
    def _answer(request: Any) -> Any:  # noqa: ANN401  pb_utils has no types
        count = int(pb_utils.get_input_tensor_by_name(request, "COUNT").as_numpy()[0])
        numbers = np.arange(16, dtype=np.int32).reshape(1, 16)
        right = 0
        for index in range(count):
            inputs = [pb_utils.Tensor("INPUT0", numbers), pb_utils.Tensor("INPUT1", numbers + np.int32(index))]
            call = pb_utils.InferenceRequest(
                model_name="simple", inputs=inputs, requested_output_names=["OUTPUT0", "OUTPUT1"]
            )
            response = call.exec()
            if response.has_error():
                raise pb_utils.TritonModelException(response.error().message())
            total = pb_utils.get_output_tensor_by_name(response, "OUTPUT0").as_numpy()
            right += int(total[0, 15]) == 30 + index
        return pb_utils.InferenceResponse([pb_utils.Tensor("RIGHT", np.array([right], np.int32))])
