"""Says PROMPT as often as REPETITION asks for."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            prompt = pb_utils.get_input_tensor_by_name(request, "PROMPT").as_numpy()[0]
            repetition = pb_utils.get_input_tensor_by_name(request, "REPETITION")
            sender = request.get_response_sender()
            for _ in range(int(repetition.as_numpy()[0]) if repetition is not None else 1):
                text = pb_utils.Tensor("TEXT", np.array([prompt], dtype=object))
                sender.send(pb_utils.InferenceResponse([text]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
