"""Let ``llm_stream`` go on with a text, and print each character as it comes.

    python model_repository/clients/llm_stream.py "The baker" --max-tokens 200 --temperature 0.5
    python model_repository/clients/llm_stream.py "The baker" --max-tokens 100000 --cancel-after 80

With ``--cancel-after`` it goes away before the text is done, and the model stops writing.
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
    """Send one request, print its tokens."""
    options = arguments()
    responses: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with triton.InferenceServerClient(options.url) as client:
        if not client.is_model_ready("llm_stream"):
            sys.exit("FAIL: llm_stream is not ready")
        client.start_stream(lambda result, error: responses.put((result, error)))
        client.async_stream_infer("llm_stream", inputs(options), enable_empty_final_response=True)
        print(options.prompt, end="", flush=True)
        count = printed(responses, options.cancel_after)
        # The model looks between two tokens whether its client is still there.
        client.stop_stream(cancel_requests=count == options.cancel_after)

    print(f"\n{count} tokens")
    expected = options.cancel_after or options.max_tokens
    if count != expected:
        print(f"FAIL: expected {expected}")
        return 1
    print("PASS")
    return 0


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description="Let llm_stream go on with a text.")
    parser.add_argument("prompt", nargs="?", default="A request", help="how the text begins")
    parser.add_argument("--url", default="localhost:8001", help="host and port of the gRPC door")
    parser.add_argument("--max-tokens", type=int, default=120, help="how many characters to write")
    parser.add_argument("--temperature", type=float, help="0 takes the likeliest character; higher is wilder")
    parser.add_argument("--seed", type=int, help="the same seed writes the same text")
    parser.add_argument("--cancel-after", type=int, help="go away after so many characters")
    return parser.parse_args()


def inputs(options: argparse.Namespace) -> list[Any]:
    """Inputs that were given; the model has its own defaults for the others."""
    given = [
        ("PROMPT", "BYTES", options.prompt.encode(), np.object_),
        ("MAX_TOKENS", "INT32", options.max_tokens, np.int32),
        ("TEMPERATURE", "FP32", options.temperature, np.float32),
        ("SEED", "INT64", options.seed, np.int64),
    ]
    tensors: list[Any] = []
    for name, datatype, value, dtype in given:
        if value is not None:
            tensors.append(triton.InferInput(name, [1], datatype))
            tensors[-1].set_data_from_numpy(np.array([value], dtype))
    return tensors


def printed(responses: queue.Queue[tuple[Any, Any]], limit: int | None) -> int:
    """Print tokens until the last one or ``limit``; how many they were."""
    count = 0
    while count != limit:
        result, error = responses.get(timeout=WAIT_S)
        if error is not None:
            raise error
        response = result.get_response()
        if response.outputs:
            count += 1
            print(result.as_numpy("TEXT")[0].decode(), end="", flush=True)
        if response.parameters["triton_final_response"].bool_param:
            break
    return count


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, InferenceServerException) as exc:
        sys.exit(f"FAIL: {exc}")
