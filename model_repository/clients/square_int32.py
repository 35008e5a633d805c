"""Send the decoupled model ``square_int32`` several requests on one stream: n is answered n times.

    python model_repository/clients/square_int32.py --numbers 3 0 2

Responses of different requests may mingle; the request id says which one a response is for.
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
    """Send all requests, then sort their responses."""
    parser = argparse.ArgumentParser(description="Send square_int32 several requests on one stream.")
    parser.add_argument("--url", default="localhost:8001", help="host and port of the gRPC door")
    parser.add_argument("--numbers", type=int, nargs="+", default=[3, 0, 2], help="a request for each")
    options = parser.parse_args()

    responses: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with triton.InferenceServerClient(options.url) as client:
        if not client.is_model_ready("square_int32"):
            sys.exit("FAIL: square_int32 is not ready")
        client.start_stream(lambda result, error: responses.put((result, error)))
        for index, number in enumerate(options.numbers):
            tensor = triton.InferInput("IN", [1], "INT32")
            tensor.set_data_from_numpy(np.array([number], np.int32))
            client.async_stream_infer("square_int32", [tensor], request_id=str(index), enable_empty_final_response=True)
        answers = received(responses, len(options.numbers))
        client.stop_stream()

    for number, answer in zip(options.numbers, answers, strict=True):
        print(f"{number}: {answer}")
        if answer != [number] * number:
            print(f"FAIL: expected {number} times {number}")
            return 1
    print("PASS")
    return 0


def received(responses: queue.Queue[tuple[Any, Any]], count: int) -> list[list[int]]:
    """What came for each of ``count`` requests, until the last of them has its final flag."""
    answers: list[list[int]] = [[] for _ in range(count)]
    unfinished = count
    while unfinished:
        result, error = responses.get(timeout=WAIT_S)
        if error is not None:
            raise error
        response = result.get_response()
        if response.outputs:
            answers[int(response.id)].append(int(result.as_numpy("OUT")[0]))
        unfinished -= response.parameters["triton_final_response"].bool_param
    return answers


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, InferenceServerException) as exc:
        sys.exit(f"FAIL: {exc}")
