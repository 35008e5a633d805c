"""Takes as long as the request says, and answers with that number."""

import time
from typing import Any

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """MS is FP32 [1], milliseconds; OUT is the same number."""

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer one request after the other."""
        return [self._answer(request) for request in requests]

    @staticmethod
    def _answer(request: Any) -> Any:  # noqa: ANN401  pb_utils has no types
        milliseconds = pb_utils.get_input_tensor_by_name(request, "MS").as_numpy()
        time.sleep(float(milliseconds[0]) / 1000)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", milliseconds)])
