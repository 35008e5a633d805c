from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from infer.backends import catalog
from infer.backends.api.errors import InvalidArgument, LoadFailed

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


def test_a_backend_is_found_by_its_name() -> None:
    assert catalog.backend_class("identity").name == "identity"
    assert catalog.backend_class("onnxruntime").name == "onnxruntime"


def test_an_unknown_backend_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidArgument) as caught:
        catalog.backend_class("caffe")
    assert str(caught.value) == (
        "unable to find backend library for backend 'caffe', try specifying runtime on the model configuration. "
        "Backends here are: identity, onnxruntime, python, pytorch, repeat, square"
    )


def test_a_runtime_that_is_not_installed_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = importlib.util.find_spec

    def without_onnxruntime(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "onnxruntime" else real(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without_onnxruntime)
    with pytest.raises(
        LoadFailed, match=r"needs Python package 'onnxruntime'.*run `pip install 'infer-server\[cpu\]'`"
    ):
        catalog.backend_class("onnxruntime")
    infos = {info.name: info for info in catalog.available()}
    assert not infos["onnxruntime"].available
    assert "pip install" in infos["onnxruntime"].reason
    assert infos["identity"].available


def test_listing_backends_imports_no_runtime() -> None:
    program = (
        "import sys; from infer.backends import catalog; assert catalog.available(); "
        "print(sorted(set(sys.modules) & {'onnxruntime', 'torch', 'numpy', 'infer.backends.python.backend'}))"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "[]"


def test_a_runtime_that_is_there_and_cannot_be_imported_is_a_reason_with_the_command_that_mends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(name: str, package: str | None = None) -> None:
        raise ImportError("libcudart.so.12: cannot open shared object file")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(LoadFailed, match=r"'onnxruntime' cannot be imported: libcudart.*; reinstall it with `pip"):
        catalog.backend_class("onnxruntime")
    with pytest.raises(LoadFailed, match=r"'identity' cannot be imported: libcudart[^;]*$"):
        catalog.backend_class("identity")
