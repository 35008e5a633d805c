"""Sum and difference of two vectors."""

from typing import Any

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """INPUT0 + INPUT1 and INPUT0 - INPUT1, all INT32 [batch, 16]."""

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer each request on its own."""
        return [self._answer(request) for request in requests]

    @staticmethod
    def _answer(request: Any) -> Any:  # noqa: ANN401  pb_utils has no types
        left = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
        right = pb_utils.get_input_tensor_by_name(request, "INPUT1").as_numpy()
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor("OUTPUT0", left + right), pb_utils.Tensor("OUTPUT1", left - right)]
        )
