"""One response for each element of IN, from a thread of its own."""

import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            elements, delays, wait = (
                pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in ("IN", "DELAY", "WAIT")
            )
            arguments = (request.get_response_sender(), elements, delays)
            threading.Thread(target=self.respond, args=arguments, daemon=True).start()
            time.sleep(float(wait[0]) / 1000)

    def respond(self, sender, elements, delays):
        for index, (element, delay) in enumerate(zip(elements, delays)):
            time.sleep(float(delay) / 1000)
            outputs = [
                pb_utils.Tensor("OUT", np.array([element], np.int32)),
                pb_utils.Tensor("IDX", np.array([index], np.uint32)),
            ]
            sender.send(pb_utils.InferenceResponse(outputs))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
