"""What a PyTorch file holds, told by the names inside it and not by its own. Pure but for reading the directory."""

from __future__ import annotations

import enum
import re
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_PACKAGES = "data/aotinductor/"
_PROGRAM = re.compile(r"[^/]+/models/[^/]+\.json")


class ArchiveError(Exception):
    """A file that is no PyTorch archive; the text is a sentence."""


class Format(enum.Enum):
    """What ``.pt`` and ``.pt2`` files hold; ``value`` is how a sentence calls it."""

    TORCHSCRIPT = "a TorchScript module"
    PACKAGE = "an AOTInductor package"
    EXPORTED = "an exported program"
    WEIGHTS = "a state dict"


def format_of(path: Path) -> Format:
    """What a file holds. Raises ArchiveError where it is none of the formats."""
    names = _names(path)
    if any(_PACKAGES in name for name in names):
        return Format.PACKAGE
    if any(name.endswith("serialized_exported_program.json") for name in names):
        return Format.EXPORTED
    if any(_PROGRAM.fullmatch(name) for name in names):
        return Format.EXPORTED
    if any(name.endswith("/constants.pkl") for name in names):
        return Format.TORCHSCRIPT
    if any(name.endswith("/data.pkl") for name in names):
        return Format.WEIGHTS
    msg = (
        f"'{path}' is neither a TorchScript module, an exported program, an AOTInductor package nor a state dict; save "
        "it with torch.jit.save, torch.export.save, torch._inductor.aoti_compile_and_package or torch.save"
    )
    raise ArchiveError(msg)


def package_models(path: Path) -> tuple[str, ...]:
    """The names of the models in an AOTInductor package."""
    inner = [name.partition(_PACKAGES)[2] for name in _names(path) if _PACKAGES in name]
    return tuple(sorted({name.partition("/")[0] for name in inner}))


def _names(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except zipfile.BadZipFile as exc:
        msg = f"'{path}' is not a PyTorch archive: {exc}; the file is cut off, or it was saved in another format"
        raise ArchiveError(msg) from exc
    except OSError as exc:
        msg = f"cannot read '{path}': {exc.strerror}"
        raise ArchiveError(msg) from exc
