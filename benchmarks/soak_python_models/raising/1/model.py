"""Raises, whatever is asked for."""

from typing import Any

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """IN is INT32 [1]; the exception says which number it was."""

    def execute(self, requests: list[Any]) -> list[Any]:
        """Refuse the batch."""
        number = pb_utils.get_input_tensor_by_name(requests[0], "IN").as_numpy()[0]
        msg = f"no answer to {number}."
        raise ValueError(msg)
