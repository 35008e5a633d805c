"""`infer top --once` fits the terminal, and its JSON has stable keys and raw numbers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from infer.tui.demo import DemoServer
from infer.tui.snapshot import Host, ModelSnapshot, Overview, Server
from infer.tui.text import SCHEMA, document, page

START = 1_800_000_000.0


@pytest.fixture
def pictures() -> tuple[Overview, Overview]:
    """The made-up server, two seconds apart."""
    now = [START]
    demo = DemoServer(lambda: now[0], lambda _: None)
    before = demo.overview()
    now[0] += 2
    return before, demo.overview()


PAGE = """\
server   demo 0.1.0  ready  up 2 h 05 min  pid 4242  control explicit
         http 127.0.0.1:8000  cpu 34% of a core  memory 1.4 GB  16 in flight
         15 refused
host     cpu 37% of 16 CPUs  load 3.40  memory 27 GB of 64 GB
gpu 0    NVIDIA Demo 48GB  65% busy  memory 31 GB of 48 GB  202 W of 300 W
         57 °C
gpu 1    NVIDIA Demo 48GB  62% busy  memory 19 GB of 48 GB  197 W of 300 W
         57 °C

MODEL         VER STATE          REQ/S     P50     P99  QUEUE   FAIL     MEM
bert_base       1 ○ UNAVAILABLE      0       -       -      -      0       -
bert_base       2 ● READY          120  6.9 ms 27.6 ms      3      0       -
classify_text   1 ● READY          112  9.7 ms 39.0 ms      0      0       -
detector        1 ● READY            6 65.5 ms  240 ms      1   1500  412 MB
fraud_score     4 ✗ UNAVAILABLE      0       -       -      -      0       -
ranker          1 ◑ UNLOADING        0       -       -      0      0       -
resnet50        3 ● READY          106  4.1 ms 16.4 ms      2   3002       -
summarize       1 ● READY            1   1.6 s   4.2 s     5!    149  5.7 GB
tokenizer       1 ● READY          134  664 µs  2.4 ms      0      0  357 MB
translate_de      ○ not loaded       0       -       -      -      0       -
whisper_small   1 ◐ LOADING          0       -       -      -      0       -

fraud_score 4 UNAVAILABLE: 4/model.onnx is no ONNX model: it begins with
  'version https://git-lfs'; fetch it with: git lfs pull"""


def alone(overview: Overview) -> str:
    """The page of a server to which nothing happens."""
    return page(overview, overview)


def test_a_server_on_one_page(pictures: tuple[Overview, Overview]) -> None:
    assert page(*pictures) == PAGE


@pytest.mark.parametrize("width", [80, 100, 200])
def test_no_line_is_wider_than_the_terminal(pictures: tuple[Overview, Overview], width: int) -> None:
    before, after = pictures
    long = replace(after.models[0], name="m" * 120, reason="r" * 90 + " because")
    for models in (after.models, (*after.models, long)):
        lines = page(before, replace(after, models=models), width).splitlines()
        assert max(map(len, lines)) <= max(width, 90)
        assert max(len(line) for line in lines if "rrr" not in line) <= width


def test_a_long_name_is_cut_and_the_numbers_stay(pictures: tuple[Overview, Overview]) -> None:
    after = replace(pictures[1], models=(replace(pictures[1].models[1], name="a" * 100),))
    row = page(after, after, 80).splitlines()[-1]
    assert "…" in row
    assert "READY" in row


@pytest.mark.parametrize("width", [20, 60, 79, 81, 120, 160])
def test_more_columns_come_with_more_width(pictures: tuple[Overview, Overview], width: int) -> None:
    lines = page(*pictures, width).splitlines()
    head = next(line for line in lines if line.startswith("MODEL"))
    assert len(head) <= max(width, 36)
    assert ("BACKEND" in head) == (width >= 120)


def test_a_machine_without_a_gpu_says_why_once() -> None:
    text = alone(Overview(Server(id="triton", ready=True), gpu_reason="no NVIDIA driver on this machine"))
    assert text.count("no NVIDIA driver on this machine") == 1
    assert "No models." in text


def test_what_is_not_told_takes_no_line() -> None:
    assert alone(Overview(Server(id="triton"), host=Host())) == "server   triton  not ready\n\nNo models."


@pytest.mark.parametrize(
    ("server", "word"),
    [
        (Server(ready=True), "ready"),
        (Server(), "not ready"),
        (Server(live=False), "not live"),
        (Server(ready=True, draining=True), "draining"),
    ],
)
def test_the_state_of_the_server_is_a_word(server: Server, word: str) -> None:
    assert alone(Overview(server)).splitlines()[0] == f"server   {word}"


def test_a_reason_that_is_none_is_not_told() -> None:
    rows = (ModelSnapshot("a", "1", "UNAVAILABLE", "unloaded"), ModelSnapshot("b", "1", "READY", "odd"))
    text = alone(Overview(Server(), rows))
    assert "unloaded" not in text
    assert "odd" not in text


def test_the_document_has_a_schema_raw_numbers_and_rates(pictures: tuple[Overview, Overview]) -> None:
    found = json.loads(json.dumps(document(*pictures)))
    assert found["schema"] == SCHEMA == 1
    assert found["interval_s"] == 2.0
    assert set(found) == {
        "schema", "interval_s", "server", "host", "gpus", "gpu_reason", "models", "refused", "log_last",
    }  # fmt: skip
    row = next(row for row in found["models"] if row["name"] == "resnet50")
    assert row["rates"]["requests_s"] == 106.0
    assert row["memory_bytes"] is None
    assert row["failed"] == 3002
    assert set(row["rates"]) == {
        "requests_s", "failures_s", "inferences_s", "p50_us", "p90_us", "p99_us", "mean_us", "batch_size", "phases_us",
    }  # fmt: skip
    assert found["server"]["cpu_cores"] == pytest.approx(0.34)


def test_the_document_of_a_single_picture_has_no_rates(pictures: tuple[Overview, Overview]) -> None:
    found = document(None, pictures[1])
    assert found["interval_s"] is None
    assert {row["rates"] is None for row in found["models"]} == {True}
