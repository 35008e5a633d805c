"""A client for the model `preprocess` alone, whose own client needs the ensemble around it: PASS, or what is wrong.

::

    python preprocess_client.py HTTP_PORT GRPC_PORT METRICS_PORT
"""

from __future__ import annotations

import io
import sys

import numpy as np
import tritonclient.grpc as grpcclient
from PIL import Image

SIDE = 224
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet's pictures, channel by channel: what such a network was trained with."""


def main() -> int:
    """Send a picture that has its size already and compare with what becomes of it by hand."""
    across, down = np.meshgrid(np.arange(SIDE), np.arange(SIDE))
    picture = np.stack([across, down, (across + down) // 2], axis=-1).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(picture).save(file, format="PNG")
    encoded = np.frombuffer(file.getvalue(), np.uint8)[np.newaxis]
    expected = ((picture / 255 - MEAN) / DEVIATION).transpose(2, 0, 1)[np.newaxis]
    tensor = grpcclient.InferInput("INPUT_0", list(encoded.shape), "UINT8")
    tensor.set_data_from_numpy(encoded)
    with grpcclient.InferenceServerClient(f"127.0.0.1:{sys.argv[2]}") as client:
        answer = client.infer("preprocess", [tensor]).as_numpy("OUTPUT_0")
    if answer is None or answer.shape != expected.shape or not np.allclose(answer, expected, atol=1e-4):
        print(f"the picture came back as {None if answer is None else answer.shape}, not as it should")
        return 1
    print("PASS: preprocess alone, asked by a client of ours")
    return 0


if __name__ == "__main__":
    sys.exit(main())
