from __future__ import annotations

import http.client
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from infer.backends.api.errors import Unavailable
from infer.server.operator.service import OperatorService, OperatorSettings

if TYPE_CHECKING:
    from tests.unit.server.operator.conftest import Door


def names() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("operator-")}


def test_a_free_port_is_taken_and_told(door: Door) -> None:
    host, port = door.service.address
    assert host == "127.0.0.1"
    assert port > 0


def test_threads_are_named_and_none_is_left(door: Door) -> None:
    assert "operator-door" in names()
    assert "operator-0" in names()
    idle = http.client.HTTPConnection(*door.service.address, timeout=20)
    idle.request("GET", "/v2/health/live")
    idle.getresponse().read()
    door.service.stop()
    door.service.stop()
    assert names() == set()
    idle.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(door.service.address)


def test_a_taken_port_is_named_with_what_to_do(door: Door) -> None:
    port = door.service.address[1]
    with pytest.raises(Unavailable, match=rf"metrics port {port} on '127.0.0.1' cannot be opened: .*--metrics-port"):
        OperatorService(door.engine, OperatorSettings(port=port)).start()


def test_a_host_that_does_not_exist_is_named(door: Door) -> None:
    with pytest.raises(Unavailable, match=r"on '256\.1\.1\.1' cannot be opened"):
        OperatorService(door.engine, OperatorSettings(host="256.1.1.1", port=0)).start()


def test_all_addresses_may_be_listened_on(door: Door) -> None:
    service = OperatorService(door.engine, OperatorSettings(host="0.0.0.0", port=0))
    service.start()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", service.address[1], timeout=20)
        connection.request("GET", "/v2/health/live")
        assert connection.getresponse().status == 200
        connection.close()
    finally:
        service.stop()


def test_before_start_there_is_no_address_and_stop_does_nothing(door: Door) -> None:
    service = OperatorService(door.engine, OperatorSettings(port=0))
    with pytest.raises(RuntimeError, match="call start"):
        _ = service.address
    service.stop()


def test_a_stop_goes_well_when_the_thread_is_gone_before_it_was_told(door: Door) -> None:
    trigger, thread = door.service._server.trigger, door.service._thread
    assert thread is not None
    told = trigger._physical_pull

    def late() -> None:
        told()  # as by a thread of the pool that has ended at this moment
        thread.join(10)
        told()

    trigger._physical_pull = late
    door.service.stop()
    assert names() == set()
