"""Everything of the service that is not inference answers as the HTTP door does, in messages."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf import json_format

from infer.server.grpc.messages import message
from infer.server.grpc.servicer import ANSWERED, NOT_OFFERED


def failure(door: Any, method: str, request: Any = None) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as caught:
        door.call(method, request)
    return caught.value.code().name, caught.value.details()


def request(method: str, **fields: Any) -> Any:
    return message(f"{method}Request")(**fields)


def test_every_call_of_the_service_is_answered_or_named() -> None:
    from google.protobuf import descriptor_pool

    message("ModelInferRequest")  # puts the service's file into the pool
    service = descriptor_pool.Default().FindServiceByName("inference.GRPCInferenceService")
    assert {*ANSWERED, *NOT_OFFERED, "ModelInfer", "ModelStreamInfer"} == {method.name for method in service.methods}


@pytest.mark.parametrize("method", NOT_OFFERED)
def test_what_is_not_served_yet_says_so(door: Any, method: str) -> None:
    code, details = failure(door, method)
    assert code == "UNIMPLEMENTED"
    assert details == f"{method} is not supported by this server yet; {NOT_OFFERED[method]}"


def test_live_and_ready(door: Any) -> None:
    assert door.call("ServerLive").live
    assert door.call("ServerReady").ready
    door.engine.ready = False
    assert not door.call("ServerReady").ready


@pytest.mark.parametrize("method", ["ServerLive", "ServerReady"])
def test_on_the_way_out_both_say_so(door: Any, method: str) -> None:
    door.engine.draining = True
    assert failure(door, method) == ("UNAVAILABLE", "Server exiting")


def test_a_model_that_nobody_knows_is_not_ready(door: Any) -> None:
    assert door.call("ModelReady", request("ModelReady", name="simple", version="1")).ready
    assert not door.call("ModelReady", request("ModelReady", name="simple", version="2")).ready
    assert not door.call("ModelReady", request("ModelReady", name="nope")).ready


def test_metadata(door: Any) -> None:
    server = door.call("ServerMetadata")
    assert (server.name, list(server.extensions)) == ("triton", ["classification", "binary_tensor_data"])
    model = door.call("ModelMetadata", request("ModelMetadata", name="simple"))
    assert (model.platform, list(model.versions), list(model.inputs[0].shape)) == ("fake", ["1"], [-1, 16])


def test_a_configuration_is_the_whole_one(door: Any) -> None:
    config = door.call("ModelConfig", request("ModelConfig", name="simple")).config
    assert (config.name, config.backend, config.max_batch_size) == ("simple", "fake", 8)


def test_statistics_of_one_and_of_all(door: Any) -> None:
    one = door.call("ModelStatistics", request("ModelStatistics", name="simple", version="1")).model_stats
    assert [stats.name for stats in one] == ["simple"]
    assert one[0].HasField("inference_stats")
    assert len(door.call("ModelStatistics").model_stats) == len(door.engine.models)


def test_the_index(door: Any) -> None:
    models = json_format.MessageToDict(door.call("RepositoryIndex"))["models"]
    assert {"name": "simple", "version": "1", "state": "READY"} in models
    assert {"name": "asleep"} in models
    ready = door.call("RepositoryIndex", request("RepositoryIndex", ready=True)).models
    assert {model.state for model in ready} == {"READY"}


@pytest.mark.parametrize("method", ["ModelMetadata", "ModelConfig"])
@pytest.mark.parametrize(
    ("fields", "code", "phrase"),
    [
        ({"name": "nope"}, "NOT_FOUND", "Request for unknown model: 'nope' is not found"),
        ({"name": "simple", "version": "99"}, "NOT_FOUND", "version 99 is not found"),
        ({"name": "simple", "version": "abc"}, "INVALID_ARGUMENT", "failed to get model version"),
        ({"name": "simple", "version": "-1"}, "INVALID_ARGUMENT", "invalid model version specified '-1'"),
    ],
)
def test_a_model_that_is_not_there_is_refused(
    door: Any, method: str, fields: dict[str, str], code: str, phrase: str
) -> None:
    status, details = failure(door, method, request(method, **fields))
    assert status == code
    assert phrase in details


def test_statistics_of_what_does_not_serve_are_refused(door: Any) -> None:
    status, details = failure(door, "ModelStatistics", request("ModelStatistics", name="nope"))
    assert (status, details) == ("INVALID_ARGUMENT", "requested model 'nope' is not available")
    assert failure(door, "ModelStatistics", request("ModelStatistics", version="x"))[0] == "INVALID_ARGUMENT"


def test_load_and_unload(door: Any) -> None:
    door.call("RepositoryModelLoad", request("RepositoryModelLoad", model_name="simple"))
    door.call("RepositoryModelUnload", request("RepositoryModelUnload", model_name="simple"))
    unload = request("RepositoryModelUnload", model_name="simple")
    unload.parameters["unload_dependents"].bool_param = True
    door.call("RepositoryModelUnload", unload)
    assert door.engine.changes == [("load", "simple"), ("unload", "simple"), ("unload_all", "simple")]


@pytest.mark.parametrize("verb", ["Load", "Unload"])
@pytest.mark.parametrize(
    ("fields", "code", "phrase"),
    [
        ({"model_name": ""}, "INVALID_ARGUMENT", "Model name cannot be empty. Please enter a valid name to deploy."),
        ({"model_name": "  "}, "INVALID_ARGUMENT", "Model name cannot be empty"),
        ({"model_name": "../x"}, "INVALID_ARGUMENT", "must not contain path traversal characters"),
        ({"model_name": "a/b"}, "INVALID_ARGUMENT", "must not contain path traversal characters"),
        ({"repository_name": "r"}, "UNIMPLEMENTED", "'repository_name' specification is not supported"),
    ],
)
def test_a_name_that_names_no_model_is_refused(
    door: Any, verb: str, fields: dict[str, str], code: str, phrase: str
) -> None:
    method = f"RepositoryModel{verb}"
    status, details = failure(door, method, request(method, **fields))
    assert status == code
    assert phrase in details


@pytest.mark.parametrize("verb", ["Load", "Unload"])
def test_another_control_mode_allows_neither(door: Any, verb: str) -> None:
    door.engine.control_mode = "none"
    method = f"RepositoryModel{verb}"
    code, details = failure(door, method, request(method, model_name="simple"))
    assert code == "UNAVAILABLE"
    assert details == "explicit model load / unload is not allowed if polling is enabled"


def test_an_index_of_one_repository_is_not_offered(door: Any) -> None:
    code, details = failure(door, "RepositoryIndex", request("RepositoryIndex", repository_name="r"))
    assert (code, details) == ("UNIMPLEMENTED", "'repository_name' specification is not supported")


def test_a_load_that_fails_says_why(door: Any) -> None:
    _, details = failure(door, "RepositoryModelLoad", request("RepositoryModelLoad", model_name="unknown_model"))
    assert details == "failed to load 'unknown_model', failed to poll from model repository"


@pytest.mark.parametrize(
    ("key", "field", "value", "code", "phrase"),
    [
        ("foo", "string_param", "x", "INVALID_ARGUMENT", "unrecognized load parameter 'foo'."),
        ("config", "int64_param", 1, "INVALID_ARGUMENT", "load parameter 'config', expected string_param."),
        ("file:1/m.py", "string_param", "x", "INVALID_ARGUMENT", "'file:1/m.py', expected bytes_param."),
    ],
)
def test_a_load_parameter_that_means_nothing_is_refused(
    door: Any, key: str, field: str, value: Any, code: str, phrase: str
) -> None:
    load = request("RepositoryModelLoad", model_name="simple")
    setattr(load.parameters[key], field, value)
    status, details = failure(door, "RepositoryModelLoad", load)
    assert status == code
    assert phrase in details


def test_a_load_takes_a_configuration_and_files(door: Any) -> None:
    given: list[Any] = []

    async def load(name: str, overrides: Any) -> None:
        given.append((name, overrides.config, dict(overrides.files)))

    door.engine.load = load
    load_request = request("RepositoryModelLoad", model_name="simple")
    load_request.parameters["config"].string_param = "{}"
    load_request.parameters["file:1/m.py"].bytes_param = b"\xff"
    door.call("RepositoryModelLoad", load_request)
    assert given == [("simple", "{}", {"1/m.py": b"\xff"})]


def test_an_unload_wants_a_boolean_and_leaves_the_rest_alone(door: Any) -> None:
    unload = request("RepositoryModelUnload", model_name="simple")
    unload.parameters["unload_dependents"].string_param = "x"
    code, details = failure(door, "RepositoryModelUnload", unload)
    assert code == "INVALID_ARGUMENT"
    assert details == "invalid value type for parameter 'unload_dependents', expected bool_param."
    unload = request("RepositoryModelUnload", model_name="simple")
    unload.parameters["foo"].bool_param = True
    door.call("RepositoryModelUnload", unload)


def test_what_is_no_message_is_refused(door: Any) -> None:
    with door.channel() as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/inference.GRPCInferenceService/ModelReady")(b"\xff\xff", timeout=20)
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.INTERNAL, "Unable to parse request")


def test_a_load_goes_on_where_its_caller_does_not_wait(door: Any) -> None:
    import asyncio

    begun, done = asyncio.Event(), []
    released = asyncio.Event()

    async def slow(name: str, _overrides: object) -> None:
        begun.set()
        await released.wait()
        done.append(name)

    door.engine.load = slow
    with door.channel() as channel:
        data = request("RepositoryModelLoad", model_name="simple").SerializeToString()
        call = channel.unary_unary("/inference.GRPCInferenceService/RepositoryModelLoad").future(data)
        door.wait_until(begun.is_set)
        call.cancel()
    door.on_loop(released.set)
    door.wait_until(lambda: done == ["simple"])
