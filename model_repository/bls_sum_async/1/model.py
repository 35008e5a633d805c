"""SUM is what ``square_int32`` sends for the numbers of IN, added up: calls to a decoupled model, all at once.

The same as the sample ``bls_sum``, but ``execute`` is a coroutine: it waits for the slowest call, not for their sum.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """The class that the Python backend looks for; it makes one object an instance."""

    async def execute(self, requests: list[Any]) -> list[Any]:
        """Answer every request, in order. IN is INT32 of any length, SUM INT64 [1]."""
        return list(await asyncio.gather(*map(_answer, requests)))


async def _answer(request: Any) -> Any:  # noqa: ANN401  pb_utils' request and response
    numbers = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
    try:
        total = sum(await asyncio.gather(*map(_asked, numbers)))
    except pb_utils.TritonModelException as exc:
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(exc)))
    return pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("SUM", np.array([total], np.int64))])


async def _asked(number: Any) -> int:  # noqa: ANN401  a numpy scalar
    """The sum of all responses to one number. Raises TritonModelException where one is an error."""
    call = pb_utils.InferenceRequest(
        model_name="square_int32",
        inputs=[pb_utils.Tensor("IN", np.array([number], np.int32))],
        requested_output_names=["OUT"],
    )
    responses = await call.async_exec(decoupled=True)
    # Iterating waits for each response; a thread does that, because the loop has the other calls to run meanwhile.
    return await asyncio.to_thread(_added, responses)


def _added(responses: Any) -> int:  # noqa: ANN401  pb_utils' iterator
    total = 0
    for response in responses:
        if response.has_error():
            raise pb_utils.TritonModelException(response.error().message())
        # The response that carries nothing but the final flag has no tensors.
        if response.output_tensors():
            total += int(pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy()[0])
    return total
