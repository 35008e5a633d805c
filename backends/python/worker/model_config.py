"""``pb_utils.ModelConfig``: the configuration that ``auto_complete_config`` completes. Errors are ValueError."""

from __future__ import annotations

import json
from typing import Any


class ModelConfig:
    """A configuration read from JSON text; ``as_dict`` gives the live document."""

    def __init__(self, model_config: str) -> None:
        self._model_config: dict[str, Any] = json.loads(model_config)

    def as_dict(self) -> dict[str, Any]:
        """The document itself, not a copy."""
        return self._model_config

    def set_max_batch_size(self, max_batch_size: int) -> None:
        """Set it; raises where the configuration allows more than the model."""
        current = self._model_config.get("max_batch_size", 0)
        if current > max_batch_size:
            msg = (
                f"configuration specified max_batch_size {current}, but in auto_complete_config function for model "
                f"'{self._name()}' specified max_batch_size {max_batch_size}"
            )
            raise ValueError(msg)
        self._model_config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self) -> None:
        """Ask for the dynamic batcher; raises where the configuration has another scheduler."""
        for other in ("sequence_batching", "ensemble_scheduling"):
            if other in self._model_config:
                msg = (
                    f"configuration specified {other}, but in auto_complete_config function for model "
                    f"'{self._name()}' specified dynamic_batching"
                )
                raise ValueError(msg)
        self._model_config.setdefault("dynamic_batching", {})

    def add_input(self, input: dict[str, Any]) -> None:  # noqa: A002  the interface
        """Add or complete an input: keys name, data_type, dims, optional."""
        self._merge("input", input, ("name", "data_type", "dims", "optional"))

    def add_output(self, output: dict[str, Any]) -> None:
        """Add or complete an output: keys name, data_type, dims."""
        self._merge("output", output, ("name", "data_type", "dims"))

    def set_model_transaction_policy(self, transaction_policy_dict: dict[str, Any]) -> None:
        """Set ``decoupled``; raises where the configuration says otherwise."""
        for key in transaction_policy_dict:
            if key != "decoupled":
                msg = (
                    "model transaction policy property in auto-complete-config function for model "
                    f"'{self._name()}' contains property other than 'decoupled'."
                )
                raise ValueError(msg)
        if "decoupled" not in transaction_policy_dict:
            return
        wanted = transaction_policy_dict["decoupled"]
        policy = self._model_config.get("model_transaction_policy")
        if policy is not None and policy.get("decoupled", False) != wanted:
            msg = (
                f"trying to change decoupled property in auto-complete-config for model '{self._name()}', which is "
                f"already set to '{policy.get('decoupled', False)}'."
            )
            raise ValueError(msg)
        self._model_config["model_transaction_policy"] = {"decoupled": wanted}

    def _name(self) -> str:
        return self._model_config.get("name", "")

    def _merge(self, section: str, entry: dict[str, Any], allowed: tuple[str, ...]) -> None:
        where = f"{section} in auto-complete-config function for model '{self._name()}'"
        for key in entry:
            if key not in allowed:
                msg = f"{where} contains property other than {', '.join(repr(name) for name in allowed)}."
                raise ValueError(msg)
        for key in ("name", "data_type", "dims"):
            if key not in entry:
                msg = f"{where} is missing '{key}' property."
                raise ValueError(msg)
        entries: list[dict[str, Any]] = self._model_config.setdefault(section, [])
        current = next((each for each in entries if each.get("name") == entry["name"]), None)
        if current is None:
            entries.append(entry)
            return
        _check_equal(where, current, entry)
        current.update(entry)


def _check_equal(where: str, current: dict[str, Any], entry: dict[str, Any]) -> None:
    name = entry["name"]
    kept = current.get("data_type", "TYPE_INVALID")
    if kept not in ("TYPE_INVALID", entry["data_type"]):
        msg = f"{where}: '{name}' has data_type {kept} in the configuration and {entry['data_type']} in the model."
        raise ValueError(msg)
    dims: list[int] = current.get("dims") or []
    if dims and list(dims) != list(entry["dims"]):
        msg = f"{where}: '{name}' has dims {dims} in the configuration and {entry['dims']} in the model."
        raise ValueError(msg)
    if "optional" in current and "optional" in entry and current["optional"] != entry["optional"]:
        msg = (
            f"{where}: '{name}' is optional={current['optional']} in the configuration and {entry['optional']} "
            "in the model."
        )
        raise ValueError(msg)
