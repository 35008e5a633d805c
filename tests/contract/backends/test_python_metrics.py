"""Custom metrics of models in real workers, read as the metrics endpoint shows them."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from infer.backends.api.backend import InstanceState
from infer.server.observe.metrics import ServerMetrics

Rig = Any

COUNT = """
class TritonPythonModel:
    def initialize(self, args):
        self.family = pb_utils.MetricFamily("requests", "How many", pb_utils.MetricFamily.COUNTER)
        self.metric = self.family.Metric(labels={"model": args["model_name"]})
    def execute(self, requests):
        value = int(by_name(requests[0], "IN").as_numpy()[0])
        if value < 0:
            os.kill(os.getpid(), 9)
        self.metric.increment(value)
        return [Response([T("OUT", np.array([self.metric.value()], np.int32))])]
"""
RUN = """
class TritonPythonModel:
    def execute(self, requests):
        text = by_name(requests[0], "IN").as_numpy()[0].decode()
        try:
            said = eval(text, {"pb_utils": pb_utils, "np": np, **self.names})
        except (pb_utils.TritonModelException, TypeError, AttributeError) as exc:
            said = f"{type(exc).__name__}: {exc}"
        return [Response([T("OUT", np.array([str(said)], np.object_))])]
    def initialize(self, args):
        M = pb_utils.MetricFamily
        self.families = [M("c", "", M.COUNTER), M("g", "", M.GAUGE), M("h", "", M.HISTOGRAM)]
        c, g, h = self.families
        self.names = {"M": M, "c": c, "g": g, "h": h, "m": c.Metric(), "gm": g.Metric({"a": "b"}),
                      "hm": h.Metric(buckets=[1, 2.5])}
"""


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int32)


def shown(rig: Rig) -> list[str]:
    lines = ServerMetrics(lambda: (), custom=rig.metrics).text().splitlines()
    return [line for line in lines if "nv_" not in line and not line.startswith("#")]


async def count(rig: Rig, instance: Any, value: int) -> int:
    return int((await rig.infer(instance, IN=ints(value))).outputs["OUT"].as_numpy()[0])


async def evaluate(rig: Rig, instance: Any, text: str) -> str:
    response = await rig.infer(instance, IN=np.array([text.encode()], np.object_))
    return str(response.outputs["OUT"].as_numpy()[0], "utf-8")


async def test_the_instances_of_a_model_count_into_one_metric_of_the_server(rig: Rig) -> None:
    await rig.load("counts", COUNT, count=2)
    first, second = rig.instances
    assert shown(rig) == ['requests{model="counts"} 0']
    assert await count(rig, first, 2) == 2
    assert await count(rig, second, 3) == 5
    assert shown(rig) == ['requests{model="counts"} 5']


async def test_the_metrics_of_a_worker_that_dies_go_with_it_and_those_of_others_stay(rig: Rig) -> None:
    await rig.load("counts", COUNT, count=2)
    first, second = rig.instances
    await count(rig, first, 4)
    await rig.error(first, IN=ints(-1))
    await rig.until_state(InstanceState.READY)
    assert await count(rig, first, 1) == 5, "the other instance still holds it"
    await first.close()
    await second.close()
    assert shown(rig) == []


async def test_a_change_is_not_waited_for_and_none_is_lost(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def execute(self, requests):
        family = pb_utils.MetricFamily("n", "", pb_utils.MetricFamily.COUNTER)
        metric = family.Metric()
        threads = [threading.Thread(target=lambda: [metric.increment(1) for _ in range(1000)]) for _ in range(3)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        return [Response([T("OUT", np.array([metric.value()], np.int32))])]
"""
    instance = await rig.load("many", source)
    assert await count(rig, instance, 0) == 3000
    await rig.infer(instance, IN=ints(0))
    assert (await rig.infer(instance, IN=ints(0))).outputs["OUT"].as_numpy() == [3000], "each execution begins anew"


async def test_what_is_wrong_with_a_metric_is_said_where_it_is_used(rig: Rig) -> None:
    instance = await rig.load("run", RUN)
    for text, words in [
        ("m.increment(1.5)", "None"),
        ("m.increment(np.float32(2))", "None"),
        ("m.value()", "3.5"),
        ("m.increment(-1)", "TritonModelException: a counter only grows"),
        ("m.set(1)", "TritonModelException: a metric of kind COUNTER does not support set()"),
        ("m.observe(1)", "TritonModelException: a metric of kind COUNTER does not support observe()"),
        ("m.increment('1')", "TypeError: increment(): incompatible argument 'value'"),
        ("m.increment(None)", "TypeError"),
        ("gm.increment(-2)", "None"),
        ("gm.value()", "-2.0"),
        ("gm.set(7)", "None"),
        ("gm.observe(7)", "TritonModelException"),
        ("g.Metric({'a': 'b'}).value()", "7.0"),
        ("hm.observe(2)", "None"),
        ("hm.observe(float('nan'))", "TritonModelException: a histogram cannot observe NaN"),
        ("hm.value()", "TritonModelException: a metric of kind HISTOGRAM does not support value()"),
        ("hm.increment(1)", "TritonModelException"),
        ("hm.set(1)", "TritonModelException"),
        ("h.Metric()", "TritonModelException: a HISTOGRAM needs buckets"),
        ("h.Metric(buckets=(1, 2))", "TritonModelException: a HISTOGRAM needs buckets, a list"),
        ("h.Metric(buckets=[2, 1])", "TritonModelException: buckets must be strictly ascending"),
        ("h.Metric(buckets=[1, 1])", "TritonModelException: buckets must be strictly ascending"),
        ("h.Metric(buckets=['1'])", "TypeError"),
        ("type(h.Metric(labels={'x': 'y'}, buckets=[])).__name__", "Metric"),
        ("c.Metric(buckets=[1])", "TritonModelException: a metric of kind COUNTER has no buckets"),
        ("c.Metric(labels=['a'])", "TritonModelException: labels must be a dict of str and str, got <class 'list'>"),
        ("c.Metric(labels={'a': 1})", "TritonModelException: labels must be a dict of str and str, got 'a': 1"),
        ("c.Metric(labels={'a-b': '1'})", "TritonModelException: 'a-b' is not a name for a label"),
        ("M('a b', '', M.GAUGE)", "TritonModelException: 'a b' is not a name for a metric"),
        ("M('c', '', M.GAUGE)", "TritonModelException: metric family 'c' exists as a counter"),
        ("M('nv_inference_count', '', M.COUNTER)", "TritonModelException: 'nv_inference_count' is a metric of the"),
        ("M(None, '', M.GAUGE)", "TypeError"),
        ("M('x', None, M.GAUGE)", "TypeError"),
        ("M('x', '', 1)", "TypeError"),
        ("M('x', '')", "TypeError"),
        ("M('x', '', M.GAUGE).Metric().value()", "TritonModelException: Invalid metric operation as the correspondin"),
    ]:
        assert (await evaluate(rig, instance, text)).startswith(words), text
    assert shown(rig) == [
        "c 3.5",
        'g{a="b"} 7',
        "h_count 1",
        "h_sum 2",
        'h_bucket{le="1"} 0',
        'h_bucket{le="2.5"} 1',
        'h_bucket{le="+Inf"} 1',
    ]


async def test_a_family_that_is_deleted_ends_its_metrics_and_a_metric_that_is_deleted_is_not_shown(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    def initialize(self, args):
        self.family = pb_utils.MetricFamily(name="n", description="d", kind=pb_utils.MetricFamily.GAUGE)
        self.one, self.other = self.family.Metric({"a": "1"}), self.family.Metric({"a": "2"})
    def execute(self, requests):
        step = int(by_name(requests[0], "IN").as_numpy()[0])
        if step == 1:
            del self.one
        if step == 2:
            del self.family
        try:
            self.other.set(step)
            self.other.value()
        except pb_utils.TritonModelException as exc:
            return [Response(error=pb_utils.TritonError(str(exc)))]
        return [Response([T("OUT", np.zeros(1, np.int32))])]
"""
    instance = await rig.load("deletes", source)
    await rig.infer(instance, IN=ints(0))
    assert shown(rig) == ['n{a="1"} 0', 'n{a="2"} 0']
    await rig.infer(instance, IN=ints(1))
    assert shown(rig) == ['n{a="2"} 1']
    error = await rig.error(instance, IN=ints(2))
    assert str(error) == "Invalid metric operation as the corresponding 'MetricFamily' has been deleted."
    assert shown(rig) == []


async def test_metrics_work_in_finalize_and_not_in_auto_complete_config(rig: Rig) -> None:
    source = """
class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        pb_utils.MetricFamily("n", "", pb_utils.MetricFamily.COUNTER)
        return config
    def finalize(self):
        family = pb_utils.MetricFamily("n", "", pb_utils.MetricFamily.COUNTER)
        metric = family.Metric()
        metric.increment(2)
        print("counted", metric.value(), flush=True)
    def execute(self, requests):
        return [Response([]) for _ in requests]
"""
    files = rig.write("ends", source)
    with pytest.raises(Exception, match="custom metrics are not available in auto_complete_config"):
        await rig.backend.auto_complete(rig.config("ends"), files)
    instance = await rig.load("ends", source)
    words: list[str] = []
    instance._worker._out._log = words.append
    await asyncio.wait_for(instance.close(), 20)
    assert words == ["counted 2.0"]


async def test_a_fork_of_the_model_counts_into_the_metrics_of_its_parent_and_ends_none_of_them(rig: Rig) -> None:
    source = """
import multiprocessing
class TritonPythonModel:
    def initialize(self, args):
        self.family = pb_utils.MetricFamily("n", "", pb_utils.MetricFamily.COUNTER)
        self.metric = self.family.Metric()
    def work(self, n):
        self.metric.increment(n)
        self.metric.value()
        own = pb_utils.MetricFamily("own", "", pb_utils.MetricFamily.COUNTER)
        own.Metric().increment(1)
        del self.metric, self.family
    def execute(self, requests):
        context = multiprocessing.get_context("fork")
        for n in (1, 2):
            child = context.Process(target=self.work, args=(n,))
            child.start(); child.join()
            assert child.exitcode == 0
        return [Response([T("OUT", np.array([self.metric.value()], np.int32))])]
"""
    instance = await rig.load("forks", source)
    assert await count(rig, instance, 0) == 3
    assert "n 3" in shown(rig)
