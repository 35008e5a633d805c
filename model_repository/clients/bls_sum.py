"""Ask ``bls_sum`` to add up what another model sends.

    python model_repository/clients/bls_sum.py --numbers 4 2 0 1

One request and one response over HTTP: the calls that the model makes in between stay behind the server's door.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException


def main() -> int:
    """Send one request over HTTP and check the answer."""
    parser = argparse.ArgumentParser(description="Ask bls_sum to add up what square_int32 sends.")
    parser.add_argument("--url", default="localhost:8000", help="host and port of the HTTP door")
    parser.add_argument("--numbers", type=int, nargs="+", default=[4, 2, 0, 1], help="what to ask square_int32 for")
    options = parser.parse_args()

    tensor = triton.InferInput("IN", [len(options.numbers)], "INT32")
    tensor.set_data_from_numpy(np.array(options.numbers, np.int32))
    with triton.InferenceServerClient(options.url) as client:
        result = client.infer("bls_sum", [tensor])
    total = int(result.as_numpy("SUM")[0])

    # square_int32 sends n times n.
    expected = sum(number * number for number in options.numbers)
    print(f"the sum of {', '.join(f'{number} times {number}' for number in options.numbers)} is {total}")
    if total != expected:
        print(f"FAIL: expected {expected}")
        return 1
    print("PASS")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, InferenceServerException) as exc:
        sys.exit(f"FAIL: {exc}")
