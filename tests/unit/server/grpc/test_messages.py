"""The protocol's messages are tritonclient's own, without its gRPC client."""

from __future__ import annotations

import subprocess
import sys

import pytest

from infer.backends.api.errors import Internal
from infer.server.grpc import messages


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_neither_grpc_nor_tritons_client_is_imported() -> None:
    script = """
import sys
from infer.server.grpc.messages import message
made = message("ModelInferRequest")(model_name="m")
print(made.model_name, "grpc" in sys.modules, "tritonclient.grpc" in sys.modules)
"""
    assert run(script) == "m False False"


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_a_client_in_the_same_process_shares_the_classes(first: str) -> None:
    ours = "from infer.server.grpc.messages import message; message('ModelInferRequest')"
    theirs = "import tritonclient.grpc; from tritonclient.grpc import service_pb2"
    lines = [ours, theirs] if first == "ours" else [theirs, ours]
    lines.append("print(service_pb2.ModelInferRequest is message('ModelInferRequest'))")
    assert run("\n".join(lines)) == "True"


def test_a_configuration_fits_into_its_response() -> None:
    from infer.server.repository import schema

    config = schema.message_class()(name="m")
    assert messages.message("ModelConfigResponse")(config=config).config.name == "m"


def test_a_client_package_without_messages_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(Internal, match="pip install 'tritonclient"):
        messages._serialised_file()


@pytest.mark.parametrize("source", ["", "x = 1", "pool.AddSerializedFile(data)", "pool.AddSerializedFile('text')"])
def test_a_module_that_registers_nothing_holds_no_messages(source: str) -> None:
    assert messages._registered(source) is None
