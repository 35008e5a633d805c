"""What the backend makes of a version folder and a configuration before anything runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from infer.backends.api.backend import BackendContext, InstanceSpec, Model, ModelFiles, no_programs
from infer.backends.api.errors import InvalidArgument, LoadFailed
from infer.backends.api.model_config import InstanceKind
from infer.backends.torch.backend import PROGRAM, ScriptModel, TorchBackend
from infer.server.repository import config_reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from infer.backends.api.model_config import ModelConfig

SIDES = {
    "input": [{"name": name, "data_type": "TYPE_FP32", "dims": [2]} for name in "ab"],
    "output": [{"name": name, "data_type": "TYPE_FP32", "dims": [2]} for name in ("total", "difference")],
}
CODE = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, a, b): return a + b, a - b\n"


class Worker(Model):
    """Stands for a model in a worker process."""

    def create_instance(self, spec: InstanceSpec) -> Any:
        raise NotImplementedError


@pytest.fixture
def load(drive: Callable[..., Any], tmp_path: Path) -> Callable[..., Model]:
    """``load(**fields)`` loads ``1/`` with these configuration fields; a worker's model is a :class:`Worker`."""
    driver = drive(TorchBackend)
    asked: list[Path] = []

    async def program(config: ModelConfig, files: ModelFiles, path: Path) -> Model:
        asked.append(path)
        assert files.version_dir == tmp_path / "1"
        return Worker()

    context = driver.backend.context
    driver.backend.context = BackendContext(
        context.loop, context.run_blocking, context.caller, context.options, load_program=program
    )

    def run(**fields: Any) -> Model:
        config = driver.config(**{**SIDES, "max_batch_size": 4, **fields})
        made: Model = driver._loop.run_until_complete(driver.backend.load(config, driver.files))
        assert isinstance(made, Worker) == bool(asked)
        assert not asked or asked == [PROGRAM]
        return made

    return run


def test_torchscript_runs_here(load: Callable[..., Model], add_sub: Path) -> None:
    assert isinstance(load(), ScriptModel)


@pytest.mark.parametrize("platform", ["pytorch_libtorch", "libtorch", "torch_aoti"])
def test_what_a_file_is_its_content_says_and_not_the_platform(
    load: Callable[..., Model], add_sub: Path, platform: str
) -> None:
    add_sub.rename(add_sub.with_name("model.pt2"))
    assert isinstance(load(platform=platform, default_model_filename="model.pt2"), ScriptModel)


def test_an_exported_program_runs_in_a_worker(load: Callable[..., Model], exported_file: Callable[..., Path]) -> None:
    exported_file()
    assert isinstance(load(default_model_filename="model.pt2"), Worker)


def test_a_package_runs_in_a_worker(load: Callable[..., Model], aoti_package: Path, tmp_path: Path) -> None:
    (tmp_path / "1" / "model.pt2").write_bytes(aoti_package.read_bytes())
    assert isinstance(load(platform="torch_aoti", default_model_filename="model.pt2"), Worker)


def test_python_code_runs_in_a_worker(load: Callable[..., Model], tmp_path: Path) -> None:
    (tmp_path / "1" / "model.py").write_text(CODE)
    assert isinstance(load(runtime="model.py"), Worker)


@pytest.mark.parametrize("fields", [{}, {"default_model_filename": "model.py"}])
def test_python_code_alone_needs_no_runtime(load: Callable[..., Model], tmp_path: Path, fields: dict[str, str]) -> None:
    (tmp_path / "1" / "model.py").write_text(CODE)
    assert isinstance(load(**fields), Worker)


def test_a_state_dict_with_its_code_runs_in_a_worker(load: Callable[..., Model], tmp_path: Path) -> None:
    (tmp_path / "1" / "model.py").write_text(CODE)
    torch.save({}, tmp_path / "1" / "model.pt")
    assert isinstance(load(), Worker)


def test_torchscript_runs_in_a_worker_where_the_runtime_says_so(load: Callable[..., Model], add_sub: Path) -> None:
    assert isinstance(load(runtime="model.py"), Worker)


def test_another_runtime_is_refused(load: Callable[..., Model], add_sub: Path) -> None:
    with pytest.raises(LoadFailed, match=r"unable to find backend library 'libmine\.so' for model 'm'; remove"):
        load(runtime="libmine.so")


def test_a_missing_file_is_named_with_the_way_out(load: Callable[..., Model]) -> None:
    with pytest.raises(LoadFailed, match=r"unable to find '.*/1/other\.pt' for model 'm'; put the PyTorch file there"):
        load(default_model_filename="other.pt")


@pytest.mark.parametrize("content", [b"", b"garbage"])
def test_a_corrupt_file_is_named_with_the_reason(load: Callable[..., Model], tmp_path: Path, content: bytes) -> None:
    (tmp_path / "1" / "model.pt").write_bytes(content)
    with pytest.raises(LoadFailed, match=r"failed to load model 'm': '.*/1/model\.pt' is not a PyTorch archive"):
        load()


def test_a_configuration_without_outputs_is_refused(load: Callable[..., Model], add_sub: Path) -> None:
    with pytest.raises(InvalidArgument, match="must contain at least one output, none were specified"):
        load(output=[])


def test_text_of_two_dimensions_is_refused(load: Callable[..., Model], add_sub: Path) -> None:
    with pytest.raises(InvalidArgument, match="text is a list of strings in PyTorch"):
        load(output=[{"name": "words", "data_type": "TYPE_STRING", "dims": [-1, -1]}])


def test_a_parameter_with_a_wrong_value_is_refused(load: Callable[..., Model], add_sub: Path) -> None:
    with pytest.raises(InvalidArgument, match="parameter 'INFERENCE_MODE' of model 'm' must be true or false, not 'x'"):
        load(parameters={"INFERENCE_MODE": {"string_value": "x"}})


def test_names_that_do_not_fit_fail_the_load_of_the_instance(load: Callable[..., Model], add_sub: Path) -> None:
    model = load(input=[{"name": "a__0", "data_type": "TYPE_FP32", "dims": [2]}])
    instance = model.create_instance(InstanceSpec("m_0", InstanceKind.CPU))
    with pytest.raises(LoadFailed, match=r"failed to load model 'm': .* no input is configured for argument 'b'"):
        instance.load()


def test_a_torchscript_file_with_a_broken_inside_fails_the_load_with_torch_s_reason(
    load: Callable[..., Model], add_sub: Path
) -> None:
    model = load()
    add_sub.write_bytes(add_sub.read_bytes()[:-100])
    instance = model.create_instance(InstanceSpec("m_0", InstanceKind.CPU))
    with pytest.raises(LoadFailed, match=r"failed to load model 'm' from '.*/1/model\.pt': .*"):
        instance.load()


def test_gpu_instances_need_a_torch_that_sees_one(load: Callable[..., Model], add_sub: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    model = load()
    with pytest.raises(LoadFailed, match=r"is KIND_GPU on GPU 1, but the installed torch .* use KIND_CPU"):
        model.create_instance(InstanceSpec("m_0", InstanceKind.GPU, 1))


def test_kind_auto_means_a_gpu_where_torch_sees_one(drive: Callable[..., Any]) -> None:
    assert drive(TorchBackend).backend.supports_gpu is torch.cuda.is_available()


def test_a_configuration_without_tensors_is_left_as_it_is_with_a_warning(
    drive: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    driver = drive(TorchBackend)
    assert driver.completed().inputs == ()
    assert "model 'm': PyTorch files do not say their tensors, so config.pbtxt must give input, output" in caplog.text


def test_without_a_python_backend_a_worker_s_model_fails_with_the_reason(tmp_path: Path) -> None:
    config = config_reader.from_document({"name": "m"}, source="m")
    with pytest.raises(LoadFailed, match="model 'm' runs in a worker process, and there is no Python backend"):
        asyncio.run(no_programs(config, ModelFiles(tmp_path, 1), Path("model.py")))
