"""What load generators print, as numbers."""

from __future__ import annotations

from load import h2load_latencies
from report import quantile


def test_only_answered_requests_of_h2loads_log_count_and_they_are_sorted() -> None:
    log = "1795972858182890\t200\t1500\n1795972858182891\t200\t300\n1795972858182892\t-1\t9\n1795972858182893\t500\t8\n"
    assert h2load_latencies(log) == [300.0, 1500.0]
    assert h2load_latencies("") == []


def test_a_quantile_is_one_of_the_values() -> None:
    values = [float(value) for value in range(1, 101)]
    assert quantile(values, 0.5) == 51
    assert quantile(values, 0.99) == 100
    assert quantile([7.0], 0.99) == 7
