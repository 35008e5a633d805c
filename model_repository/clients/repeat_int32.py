"""Ask the decoupled model ``repeat_int32`` for several responses to one request.

    python model_repository/clients/repeat_int32.py --values 4 2 0 1 --delay 100

Only a stream carries more than one response: over gRPC ``start_stream`` and ``async_stream_infer``.
"""

from __future__ import annotations

import argparse
import queue
import sys
from typing import Any

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

WAIT_S = 60


def main() -> int:
    """Send one request, print its responses as they come."""
    parser = argparse.ArgumentParser(description="Ask repeat_int32 for several responses to one request.")
    parser.add_argument("--url", default="localhost:8001", help="host and port of the gRPC door")
    parser.add_argument("--values", type=int, nargs="*", default=[4, 2, 0, 1], help="what is to come back, one by one")
    parser.add_argument("--delay", type=int, default=10, help="milliseconds before each response")
    options = parser.parse_args()

    # Responses come on a thread of the client's: it hands them over to this one.
    responses: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with triton.InferenceServerClient(options.url) as client:
        if not client.is_model_ready("repeat_int32"):
            sys.exit("FAIL: repeat_int32 is not ready")
        client.start_stream(lambda result, error: responses.put((result, error)))
        client.async_stream_infer(
            "repeat_int32",
            inputs(options.values, options.delay),
            request_id="1",
            # Without this a final flag that comes apart from the data, as this model sends it, is not delivered.
            enable_empty_final_response=True,
        )
        values = received(responses)
        client.stop_stream()

    if values != options.values:
        print(f"FAIL: expected {options.values}, got {values}")
        return 1
    print("PASS")
    return 0


def inputs(values: list[int], delay: int) -> list[Any]:
    """IN, DELAY and WAIT as the client wants them."""
    arrays = {
        "IN": np.array(values, np.int32),
        "DELAY": np.full(len(values), delay, np.uint32),
        "WAIT": np.array([0], np.uint32),
    }
    tensors: list[Any] = []
    for name, array in arrays.items():
        tensor = triton.InferInput(name, list(array.shape), "INT32" if name == "IN" else "UINT32")
        tensor.set_data_from_numpy(array)
        tensors.append(tensor)
    return tensors


def received(responses: queue.Queue[tuple[Any, Any]]) -> list[int]:
    """The values of all responses to the request, in the order of their coming."""
    values: list[int] = []
    while True:
        result, error = responses.get(timeout=WAIT_S)
        if error is not None:
            raise error
        response = result.get_response()
        if response.outputs:
            values.append(int(result.as_numpy("OUT")[0]))
            print(f"response {result.as_numpy('IDX')[0]}: {values[-1]}")
        if response.parameters["triton_final_response"].bool_param:
            return values


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, InferenceServerException) as exc:
        sys.exit(f"FAIL: {exc}")
