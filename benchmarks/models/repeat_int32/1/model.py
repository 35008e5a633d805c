"""Every number that came in, in a response of its own."""

from typing import Any

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """IN is INT32 [n]; OUT is INT32 [1], n times."""

    def execute(self, requests: list[Any]) -> None:
        """Send the responses of each request, then say that there are no more."""
        for request in requests:
            sender = request.get_response_sender()
            numbers = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            for index in range(len(numbers)):
                tensor = pb_utils.Tensor("OUT", numbers[index : index + 1])
                sender.send(pb_utils.InferenceResponse([tensor]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
