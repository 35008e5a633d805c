"""TorchScript instances on the CPU: gather, run, scatter, and what goes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from infer.backends.api.backend import InstanceSpec
from infer.backends.api.datatypes import Datatype
from infer.backends.api.errors import BackendFailure, Internal, InvalidArgument
from infer.backends.api.model_config import InstanceKind
from infer.backends.api.request import InferenceRequest
from infer.backends.api.tensor import Tensor
from infer.backends.torch.backend import TorchBackend

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray


def io(inputs: dict[str, Any], outputs: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Configuration fields: a tensor is its datatype and its dims, and further keys if there are any."""

    def entries(side: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {"name": name, "data_type": given[0], "dims": given[1], **(given[2] if given[2:] else {})}
            for name, given in side.items()
        ]

    return {"input": entries(inputs), "output": entries(outputs), **more}


PAIR = {"a": ("TYPE_FP32", [2]), "b": ("TYPE_FP32", [2])}
TWO = {"total": ("TYPE_FP32", [2]), "difference": ("TYPE_FP32", [2])}
X = {"x": ("TYPE_FP32", [-1])}
Y = {"y": ("TYPE_FP32", [-1])}


class Identity(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Last(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, 1:]


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class InPlace(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.numel() > 0:
            x += 1
        return x * 1


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += x
        return self.count


class Words(torch.nn.Module):
    def forward(self, words: list[str]) -> list[str]:
        return [word + "!" for word in words]


class Raises(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 100):
            raise ValueError("too much")
        return x * 1


class Grows(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat((x, x))


class Keyed(torch.nn.Module):
    def forward(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"sum": given["left"] + given["right"], "left": given["left"] * 1}


class Optional(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        return x * 1 if y is None else x + y


def values(datatype: Datatype, shape: tuple[int, ...]) -> NDArray[Any]:
    numbers = np.arange(np.prod(shape)).reshape(shape)
    return (numbers % 2).astype(bool) if datatype is Datatype.BOOL else numbers.astype(datatype.numpy)


def row(*numbers: float) -> NDArray[np.float32]:
    return np.array([numbers], np.float32)


@pytest.mark.parametrize("datatype", [each for each in Datatype if each is not Datatype.BYTES], ids=str)
def test_every_datatype_goes_through_and_a_batch_is_gathered_and_scattered(
    drive: Callable[..., Any], script_file: Callable[..., Path], datatype: Datatype
) -> None:
    script_file(Identity())
    driver = drive(TorchBackend)
    entry = (datatype.config_name, [2])
    instance = driver.instance(driver.config(**io({"x": entry}, {"y": entry}, max_batch_size=4)))
    one, two = values(datatype, (1, 2)), values(datatype, (3, 2))[::-1]
    for given in ([one], [one, two]):
        requests = [driver.request({"x": array}, rows=len(array)) for array in given]
        for response, array in zip(driver.execute(instance, *requests), given, strict=True):
            assert response.error is None
            assert response.outputs["y"].datatype is datatype
            assert response.outputs["y"].as_numpy().tolist() == array.tolist()


def test_inputs_go_by_the_names_of_arguments_and_a_batch_is_one_call(drive: Callable[..., Any], add_sub: Path) -> None:
    driver = drive(TorchBackend)
    instance = driver.instance(driver.config(**io(PAIR, TWO, max_batch_size=4)))
    one, two = driver.execute(
        instance,
        driver.request({"b": row(3, 4), "a": row(1, 2)}),
        driver.request({"b": row(1, 1), "a": row(5, 5)}),
    )
    assert one.outputs["total"].as_numpy().tolist() == [[4.0, 6.0]]
    assert two.outputs["difference"].as_numpy().tolist() == [[4.0, 4.0]]


def test_requests_that_differ_in_more_than_rows_are_executed_apart(
    drive: Callable[..., Any], script_file: Callable[..., Path]
) -> None:
    script_file(Twice())
    driver = drive(TorchBackend)
    instance = driver.instance(driver.config(**io(X, Y, max_batch_size=4)))
    one, two, three = driver.execute(instance, *(driver.request({"x": array}) for array in (row(1), row(2, 3), row(4))))
    assert one.outputs["y"].as_numpy().tolist() == [[2.0]]
    assert two.outputs["y"].as_numpy().tolist() == [[4.0, 6.0]]
    assert three.outputs["y"].as_numpy().tolist() == [[8.0]]


def test_a_model_without_a_batch_dimension_is_executed_request_by_request(
    drive: Callable[..., Any], script_file: Callable[..., Path]
) -> None:
    script_file(Twice())
    driver = drive(TorchBackend)
    instance = driver.instance(driver.config(**io(X, Y)))
    one, two = driver.execute(instance, *(driver.request({"x": row(*each)[0]}) for each in ((1, 2), (3,))))
    assert one.outputs["y"].as_numpy().tolist() == [2.0, 4.0]
    assert two.outputs["y"].as_numpy().tolist() == [6.0]


def test_a_request_gets_only_the_outputs_it_asks_for_in_its_order(drive: Callable[..., Any], add_sub: Path) -> None:
    driver = drive(TorchBackend)
    instance = driver.instance(driver.config(**io(PAIR, TWO, max_batch_size=4)))
    given = {"a": row(5, 6), "b": row(1, 2)}
    one, two, three = driver.execute(
        instance,
        driver.request(given, outputs=("difference",)),
        driver.request(given, outputs=("difference", "total")),
        driver.request(given),
    )
    assert [list(each.outputs) for each in (one, two, three)] == [
        ["difference"],
        ["difference", "total"],
        ["total", "difference"],
    ]


def test_phases_are_stamped_in_order(drive: Callable[..., Any], add_sub: Path) -> None:
    driver = drive(TorchBackend)
    driver.execute(
        driver.instance(driver.config(**io(PAIR, TWO, max_batch_size=4))),
        driver.request({"a": row(1, 2), "b": row(1, 2)}),
    )
    batch = driver.batch
    assert 0 < batch.compute_start <= batch.compute_input_end <= batch.compute_output_start <= batch.compute_end


def test_an_input_at_an_odd_address_of_a_read_only_body_is_read_right(drive: Callable[..., Any], add_sub: Path) -> None:
    driver = drive(TorchBackend)
    body = b"{}x" + row(1, 2).tobytes()
    a = Tensor(Datatype.FP32, (1, 2), memoryview(body)[3:])
    b = Tensor.from_numpy(row(10, 20))
    instance = driver.instance(driver.config(**io(PAIR, TWO, max_batch_size=4)))
    (response,) = driver.execute(instance, InferenceRequest("m", {"a": a, "b": b}))
    assert response.outputs["total"].as_numpy().tolist() == [[11.0, 22.0]]


def test_a_model_that_writes_into_its_input_does_not_change_the_client_s(
    drive: Callable[..., Any], script_file: Callable[..., Path]
) -> None:
    script_file(InPlace())
    driver = drive(TorchBackend)
    given = row(1, 2)
    instance = driver.instance(driver.config(**io(X, Y, max_batch_size=4)))
    (response,) = driver.execute(instance, driver.request({"x": given}))
    assert response.outputs["y"].as_numpy().tolist() == [[2.0, 3.0]]
    assert given.tolist() == [[1.0, 2.0]]


def test_a_batch_of_one_is_not_copied(drive: Callable[..., Any], script_file: Callable[..., Path]) -> None:
    script_file(Twice())
    driver = drive(TorchBackend)
    instance = driver.instance(driver.config(**io(X, Y, max_batch_size=4)))
    driver.execute(instance, driver.request({"x": np.ones((1, 1000), np.float32)}))
    assert instance._staging.capacity == 0


@pytest.mark.parametrize("module", [Identity(), Last()])
@pytest.mark.parametrize("mode", ["true", "false"])
def test_an_output_that_is_an_input_s_memory_is_the_response_s_own(
    drive: Callable[..., Any], script_file: Callable[..., Path], module: Any, mode: str
) -> None:
    script_file(module)
    driver = drive(TorchBackend)
    parameters = {"INFERENCE_MODE": {"string_value": mode}}
    instance = driver.instance(driver.config(**io(X, Y, max_batch_size=4, parameters=parameters)))
    first = driver.execute(instance, driver.request({"x": row(0, 1)}), driver.request({"x": row(0, 2)}))
    driver.execute(instance, driver.request({"x": row(7, 7)}), driver.request({"x": row(8, 8)}))
    assert [each.outputs["y"].as_numpy()[0, -1] for each in first] == [1.0, 2.0]


@pytest.mark.parametrize("mode", ["true", "false"])
def test_an_output_that_is_the_model_s_memory_is_the_response_s_own(
    drive: Callable[..., Any], script_file: Callable[..., Path], mode: str
) -> None:
    script_file(Counter())
    driver = drive(TorchBackend)
    instance = driver.instance(driver.config(**io(X, Y, parameters={"INFERENCE_MODE": {"string_value": mode}})))
    answers = [driver.execute(instance, driver.request({"x": row(1)[0]}))[0] for _ in range(3)]
    assert [each.outputs["y"].as_numpy().tolist() for each in answers] == [[1.0], [2.0], [3.0]]


@pytest.mark.parametrize("mode", ["true", "false"])
def test_a_model_runs_without_gradients_in_both_modes(drive: Callable[..., Any], add_sub: Path, mode: str) -> None:
    driver = drive(TorchBackend)
    parameters = {
        "INFERENCE_MODE": {"string_value": mode},
        "DISABLE_OPTIMIZED_EXECUTION": {"string_value": mode},
        "ENABLE_CACHE_CLEANING": {"string_value": "true"},
    }
    instance = driver.instance(driver.config(**io(PAIR, TWO, max_batch_size=4, parameters=parameters)))
    (response,) = driver.execute(instance, driver.request({"a": row(1, 2), "b": row(1, 2)}))
    assert response.outputs["total"].as_numpy().tolist() == [[2.0, 4.0]]


def test_dictionaries_go_in_and_out_by_key(drive: Callable[..., Any], script_file: Callable[..., Path]) -> None:
    script_file(Keyed())
    driver = drive(TorchBackend)
    sides = {name: ("TYPE_FP32", [-1]) for name in ("right", "left")}
    instance = driver.instance(driver.config(**io(sides, {"sum": ("TYPE_FP32", [-1])}, max_batch_size=4)))
    (response,) = driver.execute(instance, driver.request({"left": row(1), "right": row(10)}))
    assert response.outputs["sum"].as_numpy().tolist() == [[11.0]]


def test_an_optional_input_may_be_left_out(drive: Callable[..., Any], script_file: Callable[..., Path]) -> None:
    script_file(Optional())
    driver = drive(TorchBackend)
    inputs = {"x": ("TYPE_FP32", [-1]), "y": ("TYPE_FP32", [-1], {"optional": True})}
    instance = driver.instance(driver.config(**io(inputs, {"z": ("TYPE_FP32", [-1])}, max_batch_size=4)))
    without, given = driver.execute(instance, driver.request({"x": row(1)}), driver.request({"x": row(1), "y": row(2)}))
    assert without.outputs["z"].as_numpy().tolist() == [[1.0]]
    assert given.outputs["z"].as_numpy().tolist() == [[3.0]]


@pytest.mark.parametrize("batching", [True, False])
def test_text_goes_in_and_out_as_a_list_of_strings(
    drive: Callable[..., Any], script_file: Callable[..., Path], batching: bool
) -> None:
    script_file(Words())
    driver = drive(TorchBackend)
    fields = io({"words": ("TYPE_STRING", [-1])}, {"loud": ("TYPE_STRING", [-1])}, max_batch_size=4 if batching else 0)
    instance = driver.instance(driver.config(**fields))
    arrays = [np.array([["déjà".encode(), b""]], object), np.array([[b"c", b"d"], [b"e", b"f"]], object)]
    if not batching:
        arrays = [array.reshape(-1) for array in arrays]
    requests = [driver.request({"words": array}, rows=len(array)) for array in arrays]
    for response, array in zip(driver.execute(instance, *requests), arrays, strict=True):
        assert response.outputs["loud"].shape == array.shape
        expected = [item + b"!" for item in array.ravel()]
        assert response.outputs["loud"].as_numpy().ravel().tolist() == expected


def test_text_that_is_not_utf8_is_refused(drive: Callable[..., Any], script_file: Callable[..., Path]) -> None:
    script_file(Words())
    driver = drive(TorchBackend)
    fields = io({"words": ("TYPE_STRING", [-1])}, {"loud": ("TYPE_STRING", [-1])})
    bad = driver.request({"words": np.array([b"\xff"], object)})
    good = driver.request({"words": np.array([b"a"], object)})
    refused, answered = driver.execute(driver.instance(driver.config(**fields)), bad, good)
    assert isinstance(refused.error, InvalidArgument)
    assert "input 'words' of model 'm' is not UTF-8 text, which PyTorch's strings are: byte 0xff" in str(refused.error)
    assert answered.outputs["loud"].as_numpy().tolist() == [b"a!"]


def test_bad_text_in_a_batch_fails_only_its_own_request(
    drive: Callable[..., Any], script_file: Callable[..., Path]
) -> None:
    script_file(Words())
    driver = drive(TorchBackend)
    fields = io({"words": ("TYPE_STRING", [-1])}, {"loud": ("TYPE_STRING", [-1])}, max_batch_size=4)
    requests = [driver.request({"words": np.array([[text]], object)}) for text in (b"a", b"\xff", b"c")]
    one, two, three = driver.execute(driver.instance(driver.config(**fields)), *requests)
    assert one.outputs["loud"].as_numpy().tolist() == [[b"a!"]]
    assert isinstance(two.error, InvalidArgument)
    assert three.outputs["loud"].as_numpy().tolist() == [[b"c!"]]


def test_what_the_model_raises_names_the_model_and_the_reason(
    drive: Callable[..., Any], script_file: Callable[..., Path]
) -> None:
    script_file(Raises())
    driver = drive(TorchBackend)
    instance = driver.instance(driver.config(**io(X, Y)))
    failed, answered = driver.execute(instance, driver.request({"x": row(200)[0]}), driver.request({"x": row(1)[0]}))
    assert isinstance(failed.error, BackendFailure)
    assert "PyTorch error in model 'm': " in str(failed.error)
    assert "too much" in str(failed.error)
    assert answered.outputs["y"].as_numpy().tolist() == [1.0]


def test_what_the_runtime_raises_is_the_backend_s_failure(drive: Callable[..., Any], add_sub: Path) -> None:
    driver = drive(TorchBackend)
    wide = {name: ("TYPE_FP32", [-1]) for name in ("a", "b")}
    instance = driver.instance(driver.config(**io(wide, TWO)))
    (response,) = driver.execute(instance, driver.request({"a": row(1, 2, 3)[0], "b": row(1, 2)[0]}))
    assert isinstance(response.error, BackendFailure)
    assert "must match the size" in str(response.error)


@pytest.mark.parametrize(
    ("module", "output", "phrase"),
    [
        (Grows(), ("TYPE_FP32", [-1]), "output 'y' has shape [2, 1] for a batch of 1"),
        (Twice(), ("TYPE_FP32", [3]), "output 'y' has shape [1, 1], and [-1, 3] is configured"),
        (Twice(), ("TYPE_INT64", [-1]), "output 'y' is TYPE_FP32, and TYPE_INT64 is configured"),
        (Twice(), ("TYPE_STRING", [-1]), "output 'y' is TYPE_FP32, and a list of strings is configured"),
    ],
)
def test_an_output_that_does_not_fit_is_the_backend_s_failure(
    drive: Callable[..., Any], script_file: Callable[..., Path], module: Any, output: Any, phrase: str
) -> None:
    script_file(module)
    driver = drive(TorchBackend)
    instance = driver.instance(driver.config(**io(X, {"y": output}, max_batch_size=4)))
    (response,) = driver.execute(instance, driver.request({"x": row(1)}))
    assert isinstance(response.error, BackendFailure)
    assert f"PyTorch error in model 'm': {phrase}" in str(response.error)


def test_too_few_outputs_are_the_backend_s_failure(drive: Callable[..., Any], script_file: Callable[..., Path]) -> None:
    script_file(Twice())
    driver = drive(TorchBackend)
    outputs = {name: ("TYPE_FP32", [-1]) for name in ("y", "z")}
    instance = driver.instance(driver.config(**io(X, outputs, max_batch_size=4)))
    (response,) = driver.execute(instance, driver.request({"x": row(1)}))
    assert isinstance(response.error, BackendFailure)
    assert "the model returned 1 output(s), and output 'z' is number 1" in str(response.error)


def test_reshapes_are_undone_for_clients(drive: Callable[..., Any], script_file: Callable[..., Path]) -> None:
    script_file(Twice())
    driver = drive(TorchBackend)
    fields = io(
        {"x": ("TYPE_FP32", [1], {"reshape": {"shape": []}})},
        {"y": ("TYPE_FP32", [1], {"reshape": {"shape": []}})},
        max_batch_size=4,
    )
    (response,) = driver.execute(
        driver.instance(driver.config(**fields)), driver.request({"x": np.array([1, 2], np.float32)}, rows=2)
    )
    assert (response.outputs["y"].shape, response.outputs["y"].as_numpy().tolist()) == ((2, 1), [[2.0], [4.0]])


def test_a_request_without_rows_or_elements_gets_outputs_without_them(
    drive: Callable[..., Any], script_file: Callable[..., Path]
) -> None:
    script_file(Twice())
    driver = drive(TorchBackend)
    instance = driver.instance(driver.config(**io(X, Y, max_batch_size=4)))
    for shape in ((0, 2), (2, 0)):
        (response,) = driver.execute(instance, driver.request({"x": np.zeros(shape, np.float32)}, rows=1))
        assert response.error is None
        assert response.outputs["y"].shape == shape


def test_where_the_model_decides_its_device_inputs_stay_on_the_host(drive: Callable[..., Any], add_sub: Path) -> None:
    driver = drive(TorchBackend)
    config = driver.config(**io(PAIR, TWO, instance_group=[{"kind": "KIND_MODEL", "count": 1}]))
    instance = driver.instance(config)
    (response,) = driver.execute(instance, driver.request({"a": row(1, 2)[0], "b": row(1, 2)[0]}))
    assert response.outputs["total"].as_numpy().tolist() == [2.0, 4.0]


def test_an_instance_that_is_not_loaded_says_so(drive: Callable[..., Any], add_sub: Path) -> None:
    driver = drive(TorchBackend)
    config = driver.config(**io(PAIR, TWO, max_batch_size=4))
    loaded = driver.instance(config)
    loaded.close()
    (response,) = driver.execute(loaded, driver.request({"a": row(1, 2), "b": row(1, 2)}))
    assert isinstance(response.error, Internal)
    assert "before it was loaded" in str(response.error)


@pytest.mark.parametrize("shared", ["true", "false"])
def test_instances_share_a_module_where_the_model_says_so(
    drive: Callable[..., Any], add_sub: Path, shared: str
) -> None:
    driver = drive(TorchBackend)
    parameters = {"ENABLE_WEIGHT_SHARING": {"string_value": shared}}
    first = driver.instance(driver.config(**io(PAIR, TWO, max_batch_size=4, parameters=parameters)))
    second = driver.models[0].create_instance(InstanceSpec("m_1", InstanceKind.CPU))
    second.load()
    assert (first._script is second._script) is (shared == "true")
