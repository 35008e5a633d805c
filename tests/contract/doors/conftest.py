"""A whole server in this process, with Python, identity and sample models, for clients that know nothing of it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from infer.app.wiring import RunningServer

    Serve = Any

DATATYPES = ("BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64",
             "STRING", "BF16")  # fmt: skip
IDENTITY = """
backend: "identity"
max_batch_size: 0
input [ {{ name: "INPUT0" data_type: TYPE_{0} dims: [ -1 ] }} ]
output [ {{ name: "OUTPUT0" data_type: TYPE_{0} dims: [ -1 ] }} ]
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
"""
SLOW = """
import threading
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            value = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            cancelled = False
            open(STARTED, "w").close()
            pause = threading.Event()
            for _ in range(int(value[0] * 100)):
                if request.is_cancelled():
                    cancelled = True
                    break
                pause.wait(0.01)
            if cancelled:
                open(CANCELLED, "w").close()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", value)]))
        return responses
"""


def _slow(folder: Path) -> str:
    """The slow model's source; it says with files that it has begun, and that it was cancelled."""
    named = SLOW.replace("CANCELLED", repr(str(folder / "cancelled")))
    return named.replace("STARTED", repr(str(folder / "started")))


SLOW_CONFIG = """
backend: "python"
max_batch_size: 0
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""


PARAMETERS = """
import json
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            value = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            if value[0] < 0:
                codes = ["", "INTERNAL", "NOT_FOUND", "INVALID_ARG", "UNAVAILABLE", "UNSUPPORTED", "", "CANCELLED"]
                code = getattr(pb_utils.TritonError, codes[int(-value[0])])
                error = pb_utils.TritonError("below nothing", code)
                responses.append(pb_utils.InferenceResponse([], error))
                continue
            text = json.dumps({"id": request.request_id(), "parameters": json.loads(request.parameters())})
            output = pb_utils.Tensor("OUTPUT0", np.array([text.encode()], dtype=object))
            responses.append(pb_utils.InferenceResponse([output]))
        return responses
"""
"""Says what it was asked with; a negative number is the code of the error that it answers."""

PARAMETERS_CONFIG = """
backend: "python"
max_batch_size: 0
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_STRING dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
REPEAT = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            count = int(pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()[0])
            for index in range(abs(count)):
                if sender.is_cancelled():
                    open(CANCELLED, "w").close()
                    break
                tensor = pb_utils.Tensor("OUTPUT0", np.array([index], dtype=np.float32))
                sender.send(pb_utils.InferenceResponse([tensor]))
            if count < 0:
                sender.send(pb_utils.InferenceResponse([], pb_utils.TritonError("enough")))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
"""Counts to its input; to a negative one, and then fails."""

REPEAT_CONFIG = """
backend: "python"
max_batch_size: 0
model_transaction_policy { decoupled: true }
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""


def _python_model(folder: Path, config: str, source: str) -> None:
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(config)
    (folder / "1" / "model.py").write_text(source)


@pytest.fixture(scope="package")
def repository(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """The samples, an identity model for every datatype, and one that takes its time and looks for a cancel."""
    folder = tmp_path_factory.mktemp("repository")
    for sample in ("simple", "identity", "digits"):
        shutil.copytree(root / "model_repository" / sample, folder / sample)
    for datatype in DATATYPES:
        model = folder / f"ident_{datatype}"
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(IDENTITY.format(datatype))
    _python_model(folder / "slow", SLOW_CONFIG, _slow(folder))
    _python_model(folder / "parameters", PARAMETERS_CONFIG, PARAMETERS)
    _python_model(folder / "repeat", REPEAT_CONFIG, REPEAT.replace("CANCELLED", repr(str(folder / "no more"))))
    return folder


@pytest.fixture(scope="package")
def server(repository: Path, serve: Serve) -> Iterator[RunningServer]:
    """The running server, in explicit mode with everything loaded."""
    with serve(repository, model_control_mode="explicit", load_model=("*",)) as running:
        yield running


@pytest.fixture
def url(server: RunningServer) -> str:
    """Host and port, as clients want them."""
    address = server.http_address
    assert address is not None
    return f"{address[0]}:{address[1]}"


@pytest.fixture
def grpc_url(server: RunningServer) -> str:
    """Host and port of the gRPC door."""
    address = server.grpc_address
    assert address is not None
    return f"{address[0]}:{address[1]}"
