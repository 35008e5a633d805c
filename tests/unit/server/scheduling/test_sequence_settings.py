"""What a configuration says of sequences."""

from __future__ import annotations

from typing import Any

import pytest

from infer.backends.api.model_config import ModelConfig
from infer.server.scheduling.batch_policy import BatchPolicy
from infer.server.scheduling.sequence_settings import SequenceSettings, sequence_settings

US = 1000


def settings(max_batch_size: int, **batching: Any) -> SequenceSettings:
    document = {"name": "m", "max_batch_size": max_batch_size, "sequence_batching": batching}
    return sequence_settings(ModelConfig.from_document(document))


@pytest.mark.parametrize(("max_batch_size", "slots"), [(0, 1), (1, 1), (8, 8)])
def test_without_a_strategy_it_is_direct_with_a_slot_a_row(max_batch_size: int, slots: int) -> None:
    assert settings(max_batch_size) == SequenceSettings(slots=slots, idle_ns=1_000_000 * US)


def test_direct_has_a_delay_and_a_share_of_slots() -> None:
    found = settings(
        4, direct={"max_queue_delay_microseconds": 7, "minimum_slot_utilization": 0.5}, iterative_sequence=True
    )
    assert (found.oldest, found.delay_ns, found.utilization, found.iterative) == (None, 7 * US, 0.5, True)


def test_oldest_has_candidates_and_the_sizes_and_the_delay_of_a_batch() -> None:
    oldest = {
        "max_candidate_sequences": 32,
        "preferred_batch_size": [2, 4],
        "max_queue_delay_microseconds": 7,
        "preserve_ordering": True,
    }
    found = settings(4, oldest=oldest, max_sequence_idle_microseconds=5)
    policy = BatchPolicy(max_rows=4, preferred=frozenset([2, 4]), delay_ns=7 * US, in_order=True)
    assert found == SequenceSettings(slots=32, idle_ns=5 * US, oldest=policy)


@pytest.mark.parametrize(("max_batch_size", "slots"), [(0, 1), (8, 8)])
def test_oldest_without_candidates_has_as_many_as_a_batch_has_rows(max_batch_size: int, slots: int) -> None:
    found = settings(max_batch_size, oldest={})
    assert (found.slots, found.oldest) == (slots, BatchPolicy(max_rows=slots))
