"""The door binds, says where, speaks TLS where it is told to, and stops without leaving anybody waiting."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import grpc
import pytest
import trustme
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from infer.backends.api.errors import InvalidArgument, Unavailable
from infer.backends.api.response import InferenceResponse
from infer.server.grpc.messages import SERVICE, message
from infer.server.grpc.options import GrpcSettings, TlsSettings
from infer.server.grpc.service import GrpcService

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LIVE = f"/{SERVICE}/ServerLive"
INFER = f"/{SERVICE}/ModelInfer"


@dataclass
class Pem:
    """Files of one authority, and of one that nobody knows."""

    server: TlsSettings
    mutual: TlsSettings
    root: bytes
    client: tuple[bytes, bytes]
    stranger: tuple[bytes, bytes]


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Pem:
    folder = tmp_path_factory.mktemp("pem")
    authority, other = trustme.CA(), trustme.CA()
    served = authority.issue_cert("localhost", "127.0.0.1")
    files = {"cert": served.cert_chain_pems[0], "key": served.private_key_pem, "root": authority.cert_pem}
    for name, blob in files.items():
        blob.write_to_path(folder / name)
    known, unknown = (ca.issue_cert("client@example.org") for ca in (authority, other))
    cert, key, root = (str(folder / name) for name in ("cert", "key", "root"))
    return Pem(
        server=TlsSettings(cert, key, root),
        mutual=TlsSettings(cert, key, root, mutual=True),
        root=authority.cert_pem.bytes(),
        client=(known.private_key_pem.bytes(), known.cert_chain_pems[0].bytes()),
        stranger=(unknown.private_key_pem.bytes(), unknown.cert_chain_pems[0].bytes()),
    )


class Relay:
    """Passes one connection on and counts the bytes that come back."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.target = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.received = 0
        self._server = socket.create_connection(address, timeout=20)
        self._client: socket.socket | None = None
        self._threads = [threading.Thread(target=self._accept, name="relay")]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_error: object) -> None:
        for end in (self._client, self._server, self._listener):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
        for thread in self._threads:
            thread.join(20)

    def _accept(self) -> None:
        self._client, _ = self._listener.accept()
        back = threading.Thread(target=self._pass, args=(self._server, self._client, True), name="relay-back")
        self._threads.append(back)
        back.start()
        self._pass(self._client, self._server, False)

    def _pass(self, source: socket.socket, target: socket.socket, count: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if count:
                    self.received += len(data)
                target.sendall(data)


def live(channel: grpc.Channel, timeout: float = 20) -> bool:
    with channel:
        return message("ServerLiveResponse").FromString(channel.unary_unary(LIVE)(b"", timeout=timeout)).live


def test_a_port_that_is_taken_is_named_with_a_way_out(door: Any) -> None:
    port = door.address[1]
    taken = GrpcService(door.engine, GrpcSettings(host="127.0.0.1", port=port))
    with pytest.raises(Unavailable) as caught:
        door.serving.run(taken.start())
    assert str(caught.value) == (
        f"cannot listen on 127.0.0.1:{port} for gRPC: Address already in use; "
        "stop what uses it, or choose another with --grpc-port"
    )
    assert live(door.channel())


def test_a_host_that_cannot_be_had_is_named(door: Any) -> None:
    with pytest.raises(Unavailable, match=r"cannot listen on 192\.0\.2\.1:0 for gRPC"):
        door.serving.run(GrpcService(door.engine, GrpcSettings(host="192.0.2.1", port=0)).start())


def test_two_doors_share_a_port_where_they_are_told_to(make_door: Callable[..., Any]) -> None:
    first = make_door(reuse_port=True)
    second = make_door(reuse_port=True, port=first.address[1])
    assert first.address == second.address


def test_an_ipv6_address_may_have_tritons_form(make_door: Callable[..., Any]) -> None:
    door = make_door(host="ipv6:[::1]")
    assert door.address[0] == "::1"
    assert live(door.channel())


def test_a_host_name_is_resolved(make_door: Callable[..., Any]) -> None:
    assert live(make_door(host="localhost").channel())


def test_the_address_is_unknown_before_the_start(door: Any) -> None:
    with pytest.raises(RuntimeError, match="has not been started"):
        _ = GrpcService(door.engine, GrpcSettings()).address


def test_a_service_that_was_not_started_stops(door: Any) -> None:
    service = GrpcService(door.engine, GrpcSettings())
    door.serving.run(service.stop_accepting())
    door.serving.run(service.stop())


@pytest.mark.parametrize("service", ["", "inference.GRPCInferenceService", "anything"])
@pytest.mark.parametrize("ready", [True, False])
def test_health_is_the_servers_readiness(door: Any, service: str, ready: bool) -> None:
    door.engine.ready = ready
    with door.channel() as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=20)
    assert answer.status == (answer.SERVING if ready else answer.NOT_SERVING)


def test_health_is_not_watched(door: Any) -> None:
    with door.channel() as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            next(stub.Watch(health_pb2.HealthCheckRequest(), timeout=20))
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_reflection_names_the_services_and_their_files(door: Any) -> None:
    asked = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE),
    ]
    with door.channel() as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        services, files = stub.ServerReflectionInfo(iter(asked), timeout=20)
    names = {service.name for service in services.list_services_response.service}
    assert {SERVICE, "grpc.health.v1.Health"} <= names
    assert any(b"ModelInfer" in file for file in files.file_descriptor_response.file_descriptor_proto)


def test_tls_is_spoken(make_door: Callable[..., Any], pem: Pem) -> None:
    door = make_door(tls=pem.server)
    assert live(door.channel(grpc.ssl_channel_credentials(pem.root)))
    with pytest.raises(grpc.RpcError):
        live(door.channel(), timeout=2)


def test_mutual_tls_wants_a_certificate_of_the_authority(make_door: Callable[..., Any], pem: Pem) -> None:
    door = make_door(tls=pem.mutual)
    assert live(door.channel(grpc.ssl_channel_credentials(pem.root, *pem.client)))
    for credentials in (
        grpc.ssl_channel_credentials(pem.root),
        grpc.ssl_channel_credentials(pem.root, *pem.stranger),
    ):
        with pytest.raises(grpc.RpcError):
            live(door.channel(credentials), timeout=2)


def test_a_file_that_is_no_certificate_is_named(door: Any, tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_text("no certificate")
    path = str(tmp_path / "x.pem")
    service = GrpcService(door.engine, GrpcSettings(host="127.0.0.1", port=0, tls=TlsSettings(path, path)))
    with pytest.raises(InvalidArgument, match=r"x\.pem are no PEM certificate and its key; check --grpc-server-cert"):
        door.serving.run(service.start())


@pytest.mark.parametrize("level", ["low", "medium", "high"])
def test_replies_are_compressed_where_that_is_asked_for(make_door: Callable[..., Any], make: Any, level: str) -> None:
    """A message of zeros is a hundredth of its size on the way."""
    door = make_door(compression=level)
    request = make.one("ident_FP32", [0] * 100_000).SerializeToString()
    with Relay(door.address) as relay, grpc.insecure_channel(relay.target) as channel:
        answer = message("ModelInferResponse").FromString(channel.unary_unary(INFER)(request, timeout=20))
        assert len(answer.raw_output_contents[0]) == 400_000
    assert relay.received < 40_000


def test_a_large_message_passes_both_ways(door: Any, make: Any) -> None:
    size = 50 << 20
    request = make("ident_UINT8", raw=(bytes(size),), inputs=[make.tensor("INPUT0", "UINT8", size)])
    with door.channel() as channel:
        data = channel.unary_unary(INFER)(request.SerializeToString(), timeout=60)
    assert len(data) > size


def test_a_connection_of_age_is_closed_and_another_one_made(make_door: Callable[..., Any]) -> None:
    door = make_door(max_connection_age_ms=100, max_connection_age_grace_ms=1000)
    states: list[grpc.ChannelConnectivity] = []
    with door.channel() as channel:
        channel.subscribe(states.append)
        channel.unary_unary(LIVE)(b"", timeout=20)
        door.wait_until(lambda: grpc.ChannelConnectivity.IDLE in states[1:])
        assert message("ServerLiveResponse").FromString(channel.unary_unary(LIVE)(b"", timeout=20)).live


def test_a_stop_of_accepting_refuses_new_calls_and_finishes_what_runs(door: Any, make: Any) -> None:
    with door.channel() as channel:
        call = channel.unary_unary(INFER).future(make.one("held", [1]).SerializeToString(), timeout=20)
        door.wait_until(lambda: len(door.engine.held) == 1)
        door.serving.run(door.service.stop_accepting())
        with pytest.raises(grpc.RpcError) as caught:
            live(door.channel(), timeout=5)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        door.on_loop(lambda: door.engine.held[0].send(InferenceResponse()))
        assert message("ModelInferResponse").FromString(call.result()).model_name == "held"


def test_a_stop_cuts_what_does_not_end_and_cancels_it(make_door: Callable[..., Any], make: Any) -> None:
    door = make_door(stop_grace_s=0.05)
    with door.channel() as channel:
        call = channel.unary_unary(INFER).future(make.one("held", [1]).SerializeToString(), timeout=20)
        door.wait_until(lambda: len(door.engine.held) == 1)
        door.serving.run(door.service.stop_accepting())
        door.serving.run(door.service.stop())
        with pytest.raises(grpc.RpcError):
            call.result()
    door.wait_until(lambda: door.engine.held[0].cancelled)
