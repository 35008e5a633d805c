"""Ask ``bls_sum_async`` for several sums at the same time.

    python model_repository/clients/bls_sum_async.py --numbers 4 2 0 1 --requests 8

The client's calls are coroutines here, as the model's are.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

import numpy as np
import tritonclient.grpc.aio as triton
from tritonclient.utils import InferenceServerException


async def main() -> int:
    """Send all requests at once over gRPC and check the answers."""
    parser = argparse.ArgumentParser(description="Ask bls_sum_async to add up what square_int32 sends.")
    parser.add_argument("--url", default="localhost:8001", help="host and port of the gRPC door")
    parser.add_argument("--numbers", type=int, nargs="+", default=[4, 2, 0, 1], help="what to ask square_int32 for")
    parser.add_argument("--requests", type=int, default=4, help="how many requests to send")
    options = parser.parse_args()

    async with triton.InferenceServerClient(options.url) as client:
        # Request i asks for i more of each number.
        asked = [[number + index for number in options.numbers] for index in range(options.requests)]
        totals = await asyncio.gather(*(summed(client, numbers) for numbers in asked))

    for numbers, total in zip(asked, totals, strict=True):
        expected = sum(number * number for number in numbers)
        print(f"the sum of {', '.join(f'{number} times {number}' for number in numbers)} is {total}")
        if total != expected:
            print(f"FAIL: expected {expected}")
            return 1
    print("PASS")
    return 0


async def summed(client: triton.InferenceServerClient, numbers: list[int]) -> int:
    """The answer to one request."""
    tensor = triton.InferInput("IN", [len(numbers)], "INT32")
    tensor.set_data_from_numpy(np.array(numbers, np.int32))
    result = await client.infer("bls_sum_async", [tensor])
    return int(result.as_numpy("SUM")[0])


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except (OSError, InferenceServerException) as exc:
        sys.exit(f"FAIL: {exc}")
