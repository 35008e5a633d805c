import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """The running sum of each sequence, told apart by the control tensors."""

    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        return [self.add(request) for request in requests]

    def add(self, request):
        start, sequence, value = (first(request, name) for name in ("START", "CORRID", "INPUT"))
        self.sums[sequence] = value + (0 if start else self.sums.get(sequence, 0))
        total = np.array([[self.sums[sequence]]], dtype=np.int32)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", total)])


def first(request, name):
    return int(pb_utils.get_input_tensor_by_name(request, name).as_numpy().flat[0])
