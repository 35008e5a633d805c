"""The recorded rows of both doors: where they lie, the server they are replayed against, and the verdict over all."""

from __future__ import annotations

import contextlib
import json
import shutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer.app.settings import ServerSettings
from infer.app.wiring import build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from infer.app.wiring import RunningServer

GOLDEN = Path(__file__).parents[1] / "payloads" / "golden"
LOADED = (
    "simple", "identity_fp32", "identity_nobatch", "overridable", "identity_bytes", "repeat_int32", "bls_simple",
    "generate_bytes", "raises", "seq",
)  # fmt: skip

Row = dict[str, Any]


def rows(door: str) -> list[Row]:
    """The rows of ``http`` or ``grpc``, in the order in which they were sent."""
    return [json.loads(line) for line in (GOLDEN / f"{door}.jsonl").read_text().splitlines()]


def known(door: str) -> tuple[dict[str, str], dict[str, str]]:
    """Row name → reason, for the rows that differ and for those not served yet."""
    document = tomllib.loads((GOLDEN / f"{door}.toml").read_text())
    different: dict[str, str] = {}
    missing: dict[str, str] = {}
    for target, groups in ((different, document["different"]), (missing, document["not_served"])):
        for group in groups:
            target.update(dict.fromkeys(group["rows"], group["reason"]))
    return different, missing


@contextlib.contextmanager
def recorded_repository(folder: Path, **settings: Any) -> Iterator[RunningServer]:
    """A server on the models that the recording was made with."""
    repository = folder / "models"
    shutil.copytree(GOLDEN / "models", repository)
    for name in ("bls_loop", "empty_dir"):
        (repository / name).mkdir()
    server = build(
        ServerSettings(model_repository=(repository,), model_control_mode="explicit", load_model=LOADED, **settings)
    )
    failures = server.start()
    assert failures == {}
    yield server
    server.stop()


def check(door: str, differences: Callable[[Row], list[str]], record_property: Callable[[str, object], None]) -> None:
    """Replay every row: it is equal, or listed with its reason and really different.

    ``differences`` sends a row and says what its answer has otherwise than the recording.
    """
    different, missing = known(door)
    unexpected: list[str] = []
    stale: list[str] = []
    equal = 0
    recorded = rows(door)
    for row in recorded:
        name = row["name"]
        found = differences(row)
        if not found:
            equal += 1
            if name in different:
                stale.append(name)
        elif name not in different and name not in missing:
            unexpected.append(f"{name}: {'; '.join(found)}")
    counts = f"{equal} equal, {len(different)} knowingly different, {len(missing)} not yet served"
    record_property("counts", f"golden {door} rows: {len(recorded)} replayed, {counts}")
    assert not unexpected, "\n".join(unexpected)
    assert stale == [], "listed as different, but equal by now"
    assert set(different) | set(missing) <= {row["name"] for row in recorded}
