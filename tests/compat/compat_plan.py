"""What is to be done with a copy of the public `python_backend` repository: which file goes where, who calls it.

Names of files, models and tensors are facts of that repository; nothing of its text is here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Placed:
    """A model of the repository to be: which of the example's files it is made of. ``config`` may be missing."""

    model: str
    source: str
    config: str = ""


@dataclass(frozen=True)
class Example:
    """One example: its models, its client, and what has to be installed for it.

    ``folder`` is relative to `examples/`, as every other path is. ``needs`` are modules that server and client import.
    ``client`` is theirs; ``own_client`` is a script of ours where they have none that can run alone.
    ``stand_ins`` is for what they would load from the network. ``skip`` says why nothing of it can run anywhere here.
    """

    name: str
    folder: str
    models: tuple[Placed, ...] = ()
    client: str = ""
    own_client: str = ""
    needs: tuple[str, ...] = ()
    stand_ins: bool = False
    skip: str = ""

    @property
    def loads(self) -> set[str]:
        """The names of its models."""
        return {placed.model for placed in self.models}


def _plain(folder: str, model: str = "") -> Placed:
    return Placed(model or folder, f"{folder}/model.py", f"{folder}/config.pbtxt")


def _kind(folder: str, kind: str, model: str) -> Placed:
    return Placed(model, f"{folder}/{kind}_model.py", f"{folder}/{kind}_config.pbtxt")


_ADD_SUB, _PYTORCH = _plain("add_sub"), _plain("pytorch")
_SQUARE = _kind("decoupled", "square", "square_int32")

EXAMPLES: tuple[Example, ...] = (
    Example("add_sub", "add_sub", (_ADD_SUB,), "add_sub/client.py"),
    Example(
        "auto_complete",
        "auto_complete",
        (
            Placed("nobatch_auto_complete", "auto_complete/nobatch_model.py"),
            Placed("batch_auto_complete", "auto_complete/batch_model.py"),
        ),
        "auto_complete/client.py",
    ),
    Example(
        "bls_sync",
        "bls",
        (_kind("bls", "sync", "bls_sync"), _ADD_SUB, _PYTORCH),
        "bls/sync_client.py",
        needs=("torch",),
    ),
    Example(
        "bls_async",
        "bls",
        (_kind("bls", "async", "bls_async"), _ADD_SUB, _PYTORCH),
        "bls/async_client.py",
        needs=("torch",),
    ),
    Example(
        "bls_decoupled_sync",
        "bls_decoupled",
        (_kind("bls_decoupled", "sync", "bls_decoupled_sync"), _SQUARE),
        "bls_decoupled/sync_client.py",
    ),
    Example(
        "bls_decoupled_async",
        "bls_decoupled",
        (_kind("bls_decoupled", "async", "bls_decoupled_async"), _SQUARE),
        "bls_decoupled/async_client.py",
    ),
    Example(
        "custom_metrics",
        "custom_metrics",
        (_plain("custom_metrics"),),
        "custom_metrics/client.py",
        needs=("requests",),
    ),
    Example(
        "decoupled_repeat", "decoupled", (_kind("decoupled", "repeat", "repeat_int32"),), "decoupled/repeat_client.py"
    ),
    Example("decoupled_square", "decoupled", (_SQUARE,), "decoupled/square_client.py"),
    Example(
        "instance_kind",
        "instance_kind",
        (_plain("instance_kind", "resnet50"),),
        "instance_kind/client.py",
        needs=("torch", "torchvision"),
        stand_ins=True,
    ),
    Example("jax", "jax", (_plain("jax"),), "jax/client.py", needs=("jax",)),
    Example(
        "preprocessing",
        "preprocessing",
        (Placed("preprocess", "preprocessing/model.py", "preprocessing/model_repository/preprocess/config.pbtxt"),),
        own_client="preprocess_client.py",
        needs=("torchvision", "PIL"),
    ),
    Example(
        "preprocessing_ensemble",
        "preprocessing",
        skip="its second model is an engine that TensorRT makes on a GPU from weights of the network",
    ),
    Example("pytorch", "pytorch", (_PYTORCH,), "pytorch/client.py", needs=("torch",)),
)


def chosen(names: Sequence[str]) -> list[Example]:
    """The examples of these names or folders, all of them for none. Raises ValueError for an unknown one."""
    known = {name for example in EXAMPLES for name in (example.name, example.folder)}
    unknown = [name for name in names if name not in known]
    if unknown:
        msg = f"there is no example {', '.join(unknown)}; there are {', '.join(sorted(known))}"
        raise ValueError(msg)
    return [example for example in EXAMPLES if not names or {example.name, example.folder} & {*names}]


def layout(examples: Iterable[Example]) -> dict[str, str]:
    """Where each file of the repository of models comes from: its path there, and its path below `examples/`.

    Raises ValueError where two examples want different models under one name.
    """
    found: dict[str, str] = {}
    for placed in (placed for example in examples for placed in example.models):
        files = {f"{placed.model}/1/model.py": placed.source}
        if placed.config:
            files[f"{placed.model}/config.pbtxt"] = placed.config
        for target, source in files.items():
            if found.setdefault(target, source) != source:
                msg = f"{target} would be both {found[target]} and {source}"
                raise ValueError(msg)
    return found


def absent(example: Example, examples_folder: Path) -> list[str]:
    """Which of its files that copy of the repository does not have."""
    files = [*layout([example]).values(), *([example.client] if example.client else [])]
    return [file for file in files if not (examples_folder / file).is_file()]


def unplanned(examples_folder: Path) -> list[str]:
    """Examples of that copy which this plan does not know."""
    known = {example.folder for example in EXAMPLES}
    return sorted(path.name for path in examples_folder.iterdir() if path.is_dir() and path.name not in known)


def without_network(source: str, ports: dict[int, int]) -> str:
    """A client's source with each of Triton's ports on this host replaced by the one that the server has here."""
    for standard, actual in ports.items():
        source = source.replace(f"localhost:{standard}", f"127.0.0.1:{actual}")
    return source
