"""Fails in the way its input asks for: 0 raises, 1 and 2 answer with an error, 3 with an unknown output."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        kind = int(pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()[0])
        if kind == 0:
            raise ValueError("boom from execute")
        if kind == 1:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("error one"))
        if kind == 2:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("error two", pb_utils.TritonError.CANCELLED))
        output = pb_utils.Tensor("NOPE" if kind == 3 else "OUTPUT0", np.array([kind], np.int32))
        return pb_utils.InferenceResponse([output])
