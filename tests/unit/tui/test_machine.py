"""Gauges say what the server tells of itself and its machine, and no more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer.tui.demo import DemoServer
from infer.tui.machine import Gauge, Section, bar, sections
from infer.tui.snapshot import Gpu, Host, Instance, ModelSnapshot, Overview, Server

SERVER = Server(id="triton", version="1", now=10.0, pid=7, started_at=4.0, memory_bytes=2 << 30, cpu_s=5.0)
HOST = Host(0.5, 4, 1.25, 8 << 30, 4 << 30)
GPU = Gpu(0, "GPU-a", "NVIDIA X", 0.25, 10 << 30, 5 << 30, 150.0, 300.0, 60.0)


def gauges(section: Section) -> dict[str, Gauge]:
    return {gauge.label: gauge for gauge in section.gauges}


def picture(now: float = 10.0, cpu_s: float = 5.0, *, gpu: Gpu | None = GPU, reason: str = "") -> Overview:
    rows = (ModelSnapshot("m", instances=(Instance("m_0_0", memory_bytes=1 << 30),)),)
    return Overview(replace(SERVER, now=now, cpu_s=cpu_s), rows, HOST, (gpu,) if gpu else (), reason)


def test_a_history_without_pictures_has_nothing() -> None:
    assert sections(()) == ()


def test_the_servers_own_process_is_measured_by_the_machine() -> None:
    server = sections((picture(), picture(12.0, 6.0)))[0]
    assert server.title == "Server  triton 1  pid 7  up 8 s"
    found = gauges(server)
    assert (found["cpu"].text, found["cpu"].share) == ("50% of a core", 0.125)
    assert (found["memory"].text, found["memory"].share) == ("2 GB", 0.25)
    assert (found["workers"].text, found["workers"].past) == ("1 GB", (0.125, 0.125))


def test_a_single_picture_knows_no_cpu_yet() -> None:
    cpu = gauges(sections((picture(),))[0])["cpu"]
    assert (cpu.text, cpu.share, cpu.past) == ("-", None, ())


def test_the_machine_has_cpu_load_and_memory() -> None:
    found = gauges(sections((picture(),))[1])
    assert found["cpu"] == Gauge("cpu", "50% of 4 CPUs, load 1.25", 0.5, (0.5,))
    assert found["memory"] == Gauge("memory", "4 GB of 8 GB", 0.5, (0.5,))


def test_a_gpu_has_four_gauges() -> None:
    gpu = sections((picture(),))[2]
    assert gpu.title == "GPU 0  NVIDIA X"
    assert [(one.label, one.text, one.share) for one in gpu.gauges] == [
        ("busy", "25%", 0.25),
        ("memory", "5 GB of 10 GB", 0.5),
        ("power", "150 W of 300 W", 0.5),
        ("temperature", "60 °C", 0.6),
    ]


def test_a_figure_that_a_gpu_does_not_tell_is_left_out() -> None:
    gpu = sections((picture(gpu=Gpu(1, "GPU-b", power_usage_watts=80.0)),))[2]
    assert (gpu.title, [(one.label, one.text, one.share) for one in gpu.gauges]) == (
        "GPU 1  GPU-b",
        [("power", "80 W", None)],
    )
    assert sections((picture(gpu=Gpu()),))[2].note == "it tells no figures"


@pytest.mark.parametrize(
    ("change", "label"),
    [
        ({"utilization": 0.95}, "busy"),
        ({"memory_used_bytes": 10 << 30}, "memory"),
        ({"temperature_celsius": 88.0}, "temperature"),
    ],
)
def test_what_is_high_is_marked(change: dict[str, float], label: str) -> None:
    found = gauges(sections((picture(gpu=replace(GPU, **change)),))[2])  # type: ignore[arg-type]  a table of changes
    assert [name for name, gauge in found.items() if gauge.high] == [label]


def test_a_machine_without_gpu_says_why_once() -> None:
    found = sections((picture(gpu=None, reason="no NVIDIA driver on this machine"),))
    assert [section.note for section in found] == ["", "", "none: no NVIDIA driver on this machine"]


def test_a_server_that_tells_nothing_is_said_to() -> None:
    found = sections((Overview(Server(id="triton")),))
    assert [section.note for section in found] == [
        "it tells nothing of its own process",
        "the server does not tell",
        "none: the server tells of none",
    ]


def test_a_gpu_that_appeared_later_has_a_past_of_zeros() -> None:
    found = sections((picture(gpu=None), picture(11.0)))
    assert gauges(found[2])["busy"].past == (0.0, 0.25)


def test_the_made_up_server_has_two_gpus() -> None:
    assert len(sections((DemoServer(lambda: 1e9, lambda _: None).overview(),))) == 4


@given(st.floats(0, 5), st.integers(1, 60))
def test_a_bar_has_its_width_and_shows_whatever_is_there(share: float, width: int) -> None:
    filled, rest = bar(share, width)
    assert len(filled) + len(rest) == width
    assert bool(filled) == (share > 0)


def test_a_bar_of_nothing_known_is_blank() -> None:
    assert bar(None, 3) == ("", "   ")
