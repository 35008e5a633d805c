"""Custom metrics: who shares what, what is refused, and what the metrics endpoint shows of them."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from infer.backends.api.custom_metrics import MetricKind, NoCustomMetrics
from infer.backends.api.errors import InvalidArgument, Unsupported
from infer.server.observe.custom_metrics import CustomMetricRegistry
from infer.server.observe.metrics import ServerMetrics

if TYPE_CHECKING:
    from collections.abc import Callable

COUNTER, GAUGE, HISTOGRAM = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM


@pytest.fixture
def registry() -> CustomMetricRegistry:
    return CustomMetricRegistry()


def shown(registry: CustomMetricRegistry) -> list[str]:
    """The lines of custom metrics on the endpoint."""
    lines = ServerMetrics(lambda: (), custom=registry).text().splitlines()
    return [line for line in lines if "nv_" not in line]


def test_a_counter_is_shown_with_its_labels_sorted_and_whole_numbers_without_a_point(
    registry: CustomMetricRegistry,
) -> None:
    metric = registry.family("tokens", "How many", COUNTER).metric({"model": "m", "a": "x"})
    assert shown(registry) == ["# HELP tokens How many", "# TYPE tokens counter", 'tokens{a="x",model="m"} 0']
    metric.increment(2)
    metric.increment(0.5)
    assert metric.value() == 2.5
    assert shown(registry)[-1] == 'tokens{a="x",model="m"} 2.5'


def test_a_gauge_goes_up_and_down_and_may_have_no_labels(registry: CustomMetricRegistry) -> None:
    metric = registry.family("level", "", GAUGE).metric({})
    metric.increment(3)
    metric.increment(-5)
    assert metric.value() == -2
    metric.set(1e300)
    assert shown(registry)[-1] == "level 1e+300"
    metric.set(math.inf)
    assert shown(registry)[-1] == "level +Inf"


def test_a_histogram_shows_count_sum_and_cumulative_buckets_with_the_bounds_last(
    registry: CustomMetricRegistry,
) -> None:
    metric = registry.family("wait", "How long", HISTOGRAM).metric({"model": "m"}, [0.1, 1, 2.5])
    for value in (0.05, 0.1, 1.5, 6.0):
        metric.observe(value)
    assert shown(registry) == [
        "# HELP wait How long",
        "# TYPE wait histogram",
        'wait_count{model="m"} 4',
        'wait_sum{model="m"} 7.65',
        'wait_bucket{model="m",le="0.1"} 2',
        'wait_bucket{model="m",le="1"} 2',
        'wait_bucket{model="m",le="2.5"} 3',
        'wait_bucket{model="m",le="+Inf"} 4',
    ]


def test_a_histogram_without_buckets_of_its_own_still_counts(registry: CustomMetricRegistry) -> None:
    metric = registry.family("wait", "", HISTOGRAM).metric({}, [])
    metric.observe(3)
    assert shown(registry)[2:] == ["wait_count 1", "wait_sum 3", 'wait_bucket{le="+Inf"} 1']


def test_what_is_shown_is_read_by_a_prometheus_parser(registry: CustomMetricRegistry) -> None:
    odd = 'quote " back\\slash\nline é'
    registry.family("odd", f"a \\ and\n{odd}", GAUGE).metric({"a": odd}).set(1)
    registry.family("vllm:wait", "", HISTOGRAM).metric({"a": odd}, [1.0]).observe(2)
    families = {each.name: each for each in text_string_to_metric_families("\n".join(shown(registry)) + "\n")}
    assert [sample.labels for sample in families["odd"].samples] == [{"a": odd}]
    assert {sample.name for sample in families["vllm:wait"].samples} == {
        "vllm:wait_count",
        "vllm:wait_sum",
        "vllm:wait_bucket",
    }


def test_a_family_and_a_metric_that_exist_are_shared_and_the_first_description_stays(
    registry: CustomMetricRegistry,
) -> None:
    first, second = registry.family("n", "first", COUNTER), registry.family("n", "second", COUNTER)
    one, other = first.metric({"a": "1", "b": "2"}), second.metric({"b": "2", "a": "1"})
    one.increment(7.5)
    assert other.value() == 7.5
    first.close()
    assert shown(registry) == ["# HELP n first", "# TYPE n counter", 'n{a="1",b="2"} 7.5']
    assert other.value() == 7.5


def test_a_metric_is_shown_while_somebody_holds_it(registry: CustomMetricRegistry) -> None:
    family = registry.family("n", "", COUNTER)
    one, again, other = family.metric({"a": "1"}), family.metric({"a": "1"}), family.metric({"a": "2"})
    other.close()
    one.close()
    one.close()
    assert shown(registry)[2:] == ['n{a="1"} 0']
    again.increment(1)
    again.close()
    assert shown(registry) == [], "a family without metrics is not shown"
    assert family.metric({"a": "1"}).value() == 0, "what was let go of begins anew"


def test_a_metric_of_a_family_that_was_let_go_of_is_over(registry: CustomMetricRegistry) -> None:
    family = registry.family("n", "", GAUGE)
    metric = family.metric({})
    family.close()
    family.close()
    gone = "Invalid metric operation as the corresponding 'MetricFamily' has been deleted."
    for use in (lambda: metric.set(1), lambda: metric.increment(1), metric.value, lambda: family.metric({})):
        with pytest.raises(InvalidArgument, match=gone):
            use()
    assert registry.family("n", "", HISTOGRAM).metric({}, []), "the name is free again"


@pytest.mark.parametrize(
    ("kind", "use", "words"),
    [
        (COUNTER, lambda metric: metric.increment(-1), "only grows"),
        (COUNTER, lambda metric: metric.increment(math.nan), "only grows"),
        (COUNTER, lambda metric: metric.set(1), "is a counter and does not support 'set'"),
        (COUNTER, lambda metric: metric.observe(1), "'observe'"),
        (GAUGE, lambda metric: metric.observe(1), "is a gauge and does not support 'observe'"),
        (HISTOGRAM, lambda metric: metric.increment(1), "is a histogram and does not support 'increment'"),
        (HISTOGRAM, lambda metric: metric.set(1), "'set'"),
        (HISTOGRAM, lambda metric: metric.value(), "'value'"),
        (HISTOGRAM, lambda metric: metric.observe(math.nan), "cannot observe NaN"),
    ],
)
def test_a_metric_refuses_what_its_kind_does_not_do(
    registry: CustomMetricRegistry, kind: MetricKind, use: Callable[[Any], Any], words: str
) -> None:
    family = registry.family("n", "", kind)
    metric = family.metric({}, [1.0] if kind is HISTOGRAM else None)
    with pytest.raises(InvalidArgument, match=words):
        use(metric)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda registry: registry.family("", "", COUNTER), "is not a name for a metric"),
        (lambda registry: registry.family("1st", "", COUNTER), "'1st' is not a name"),
        (lambda registry: registry.family("a b", "", COUNTER), "is not a name"),
        (lambda registry: registry.family("a\n", "", COUNTER), "is not a name"),
        (lambda registry: registry.family("é", "", COUNTER), "is not a name"),
        (lambda registry: registry.family("nv_inference_count", "", COUNTER), "a metric of the server itself"),
        (lambda registry: registry.family("nv_inference", "", HISTOGRAM), "'nv_inference_count' is a metric of the se"),
        (lambda registry: registry.family("n", "", COUNTER).metric({"a-b": ""}), "'a-b' is not a name for a label"),
        (lambda registry: registry.family("n", "", COUNTER).metric({"__a": ""}), "is not a name for a label"),
        (lambda registry: registry.family("n", "", COUNTER).metric({"": ""}), "is not a name for a label"),
        (lambda registry: registry.family("n", "", COUNTER).metric({"a": "\ud800"}), "is not UTF-8 text"),
        (lambda registry: registry.family("n", "", COUNTER).metric({}, []), "is a counter and has no buckets"),
        (lambda registry: registry.family("n", "", HISTOGRAM).metric({}), "needs buckets"),
        (lambda registry: registry.family("n", "", HISTOGRAM).metric({"le": "1"}, []), "cannot have a label 'le'"),
        (lambda registry: registry.family("n", "", HISTOGRAM).metric({}, [2, 1]), "strictly ascending"),
        (lambda registry: registry.family("n", "", HISTOGRAM).metric({}, [1, 1]), "strictly ascending"),
        (lambda registry: registry.family("n", "", HISTOGRAM).metric({}, [1, math.inf]), "must be finite"),
        (lambda registry: registry.family("n", "", HISTOGRAM).metric({}, [math.nan]), "must be finite"),
    ],
)
def test_what_prometheus_would_not_take_is_refused(
    registry: CustomMetricRegistry, make: Callable[[CustomMetricRegistry], Any], words: str
) -> None:
    with pytest.raises(InvalidArgument, match=words):
        make(registry)
    assert shown(registry) == []


def test_a_name_that_exists_with_another_kind_or_that_another_family_shows_is_refused(
    registry: CustomMetricRegistry,
) -> None:
    kept = [registry.family("n", "", COUNTER), registry.family("wait", "", HISTOGRAM)]
    with pytest.raises(InvalidArgument, match="'n' exists as a counter, it cannot also be a gauge"):
        registry.family("n", "", GAUGE)
    with pytest.raises(InvalidArgument, match="'wait_sum' would show 'wait_sum', as 'wait' does already"):
        registry.family("wait_sum", "", COUNTER)
    assert all(kept)


def test_many_threads_count_into_one_metric_while_it_is_shown(registry: CustomMetricRegistry) -> None:
    family = registry.family("n", "", COUNTER)

    def count() -> None:
        for _ in range(500):
            metric = family.metric({})
            metric.increment(1)

    kept = family.metric({})
    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        shown(registry)
    for thread in threads:
        thread.join()
    assert kept.value() == 2000


def test_without_a_server_there_is_nobody_who_counts() -> None:
    with pytest.raises(Unsupported, match="'n' cannot be made"):
        NoCustomMetrics().family("n", "", COUNTER)
