"""Says how it was batched: OUTPUT0 is INPUT0, BATCH_SIZE the rows and REQUESTS the requests that executed together."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """The class that the Python backend looks for; it makes one object an instance."""

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer every request of the batch, in order. Tensors are INT32 of shape [rows, 1]."""
        inputs = [pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy() for request in requests]
        rows = sum(len(each) for each in inputs)
        # A framework would run one computation over all rows here: np.concatenate(inputs) is its batch.
        return [
            pb_utils.InferenceResponse(
                output_tensors=[
                    pb_utils.Tensor("OUTPUT0", each),
                    pb_utils.Tensor("BATCH_SIZE", np.full_like(each, rows)),
                    pb_utils.Tensor("REQUESTS", np.full_like(each, len(requests))),
                ]
            )
            for each in inputs
        ]
