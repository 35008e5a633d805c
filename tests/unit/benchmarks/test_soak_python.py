"""What the soak of the Python backend holds against a server, and that it finds nothing against ours."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("grpc")

from full_pools import FullPool
from soak_footprint import Kin
from soak_ledger import Counted
from soak_python import Outcome, ledger, sizes, soak, table
from soak_python_parts import (
    Answer,
    Asker,
    Part,
    Seen,
    crowd,
    echo_problem,
    loads,
    parts,
    raising_problem,
    stream_problem,
)
from tritonclient.grpc import service_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def part(**fields: Any) -> Part:
    return Part(**{"name": "p", "count": 100, "warm_up": 5, "models": {"m": "m"}, "drive": lambda *_: Seen(), **fields})


def number(value: int, elements: int = 1) -> bytes:
    return struct.pack("<i", value) * elements


def test_an_echo_is_right_where_every_number_came_back() -> None:
    assert echo_problem(Answer(200, {"OUT": number(7, 3)}), 7, 3) == ""
    assert "7 came back as 4 bytes" in echo_problem(Answer(200, {"OUT": number(7)}), 7, 3)
    assert "7 came back as 4 bytes" in echo_problem(Answer(200, {"OUT": number(8)}), 7)
    assert "7 came back as 0 bytes" in echo_problem(Answer(200), 7)
    assert echo_problem(Answer(503, error="no"), 7) == "7 was answered with 503: no"


def test_an_exception_is_right_where_it_is_the_calls_own() -> None:
    assert raising_problem(Answer(500, error="ValueError: no answer to 7.\n\nAt:"), 7) == ""
    assert "answered with 500" in raising_problem(Answer(500, error="ValueError: no answer to 17."), 7)
    assert "answered with 500" in raising_problem(Answer(500, error="ValueError: no answer to 70."), 7)
    assert "answered with 200" in raising_problem(Answer(200), 7)


def streamed(*values: int, final: int | None = None, error: str = "") -> list[bytes]:
    """Messages with these numbers, and an empty last one where ``final`` is their count."""
    messages: list[bytes] = []
    for index, value in enumerate([*values, None]):
        if value is None and final != len(values):
            continue
        answer = service_pb2.ModelStreamInferResponse()
        answer.infer_response.parameters["triton_final_response"].bool_param = index == final
        if value is not None:
            answer.infer_response.raw_output_contents.append(number(value))
        messages.append(answer.SerializeToString())
    if error:
        messages.append(service_pb2.ModelStreamInferResponse(error_message=error).SerializeToString())
    return messages


def test_a_stream_is_right_with_its_numbers_in_order_and_one_final_flag_at_the_end() -> None:
    assert stream_problem(streamed(0, 1, 2, final=3), 3) == ""
    assert stream_problem(streamed(0, 1, 2, final=2), 3) == ""


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        (streamed(0, 1, final=2), "2 responses instead of 3 in order"),
        (streamed(0, 2, 1, final=3), "3 responses instead of 3 in order"),
        (streamed(0, 1, 2), "of 3 messages these are final: []"),
        (streamed(0, 1, 2, final=1), "of 3 messages these are final: [1]"),
        (streamed(0, 1, error="the worker died"), "ended with: the worker died"),
        ([], "0 responses instead of 3 in order"),
    ],
)
def test_any_other_stream_is_wrong(messages: list[bytes], sentence: str) -> None:
    assert sentence in stream_problem(messages, 3)


def test_every_call_has_to_end_and_what_was_wrong_is_said_but_not_without_end() -> None:
    assert Seen(begun=5, answered=3, excused=2).problems() == []
    assert Seen(begun=5, answered=3).problems() == ["5 calls, 3 answers and 0 excused"]
    found = Seen(begun=8, wrong=[f"wrong {index}" for index in range(8)]).problems()
    assert found == [*(f"wrong {index}" for index in range(5)), "3 more like these", "8 calls, 0 answers and 0 excused"]


def test_the_server_has_to_count_each_call_once() -> None:
    failing, seen = part(counting="failures"), Seen(begun=10)
    before = {"m": Counted(failures=Counter(BACKEND=5))}
    assert ledger(failing, seen, before, {"m": Counted(failures=Counter(BACKEND=15))}) == []
    assert ledger(failing, seen, {}, {"m": Counted(failures=Counter(BACKEND=10))}) == []
    for after in (Counted(failures=Counter(BACKEND=14)), Counted(success=1, failures=Counter(BACKEND=15))):
        (sentence,) = ledger(failing, seen, before, {"m": after})
        assert sentence.startswith("10 calls, and the server counts")
    assert ledger(part(), seen, {}, {}) == []


def test_a_tenth_goes_first_but_never_less_than_a_part_needs() -> None:
    assert sizes(part(), 1) == (10, 100)
    assert sizes(part(), 0.02) == (5, 2)
    assert sizes(part(), 0.0001) == (5, 1)


def test_the_full_size_is_what_is_promised() -> None:
    assert {each.name: each.count for each in parts()} == {
        "loads": 1000,
        "raises": 100_000,
        "responses": 100_000,
        "kills": 200,
    }


def test_the_table_shows_what_each_generation_had_and_has() -> None:
    outcome = Outcome(Seen(begun=1000, answered=999, excused=1), 2.0, {"server": Kin(1)}, {"server": Kin(2)}, [])
    first, second = table("p", outcome).splitlines()
    assert first == "# p: 1,000 calls = 999 answered + 1 excused; 0 wrong; 2.0 s"
    assert second.startswith("#   server    processes 1 → 2  files 0 → 0")


class Door(BaseHTTPRequestHandler):
    """Answers an inference with its own tensor, and hangs up on a model that is called `gone`."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if "gone" in self.path:
            self.close_connection = True
            return
        tensor = body[int(self.headers["Inference-Header-Content-Length"]) :]
        head = json.dumps({"outputs": [{"name": "OUT", "parameters": {"binary_data_size": len(tensor)}}]}).encode()
        self.send_response(200)
        self.send_header("Inference-Header-Content-Length", str(len(head)))
        self.send_header("Content-Length", str(len(head) + len(tensor)))
        self.end_headers()
        self.wfile.write(head + tensor)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def door() -> Iterator[Any]:
    """What stands for a server: the port is all that clients need of it."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield SimpleNamespace(port=server.server_port)
        server.shutdown()
        thread.join()


def test_a_crowd_does_every_unit_once_and_a_call_without_an_answer_is_wrong(door: Any) -> None:
    done: list[int] = []

    def work(asker: Asker, _: int, unit: int, seen: Seen) -> None:
        seen.begun += 1
        done.append(unit)
        problem = echo_problem(asker.ask("gone" if unit == 3 else "m", unit, 10), unit, 10)
        assert not problem
        seen.answered += 1

    seen = crowd(door, 20, work)
    assert sorted(done) == [*range(20)]
    assert (seen.begun, seen.answered, len(seen.wrong)) == (20, 19, 1)
    assert "no answer" in seen.wrong[0]


def test_a_full_pool_has_all_of_its_threads_from_the_beginning_and_starts_no_more() -> None:
    def threads() -> int:
        return sum(each.name.startswith("full_") for each in threading.enumerate())

    with FullPool(5, thread_name_prefix="full") as pool:
        assert threads() == 5
        assert [*pool.map(lambda number: number + 1, range(100))] == [*range(1, 101)]
        assert threads() == 5
    assert threads() == 0


def test_the_server_of_a_soak_has_full_pools(root: Path) -> None:
    code = """
import runpy, sys
sys.argv = ["full_pools.py", "--help"]
try:
    runpy.run_path("benchmarks/full_pools.py", run_name="__main__")
except SystemExit:
    from infer.server import engine
    print(engine.ThreadPoolExecutor.__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert "FullPool" in done.stdout


LEAKING = """
import threading
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        number = requests[0].inputs()[0].as_numpy()
        if number[0] == 0:
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", number)])]
"""


@pytest.mark.slow
def test_one_thread_that_the_server_keeps_of_many_loads_is_found(root: Path, tmp_path: Path) -> None:
    """The model runs on a thread of the server. Of the warm-up and of what counts, the first round leaves one."""
    shutil.copytree(root / "benchmarks" / "soak_python_models" / "echo", tmp_path / "m")
    with (tmp_path / "m" / "config.pbtxt").open("a") as config:
        config.write('parameters { key: "EXECUTION_MODE" value { string_value: "thread" } }')
    (tmp_path / "m" / "1" / "model.py").write_text(LEAKING)
    models = {f"echo_{client}": str(tmp_path / "m") for client in range(4)}
    outcome = soak(Part("loads", 40, 20, models, loads, loaded=False), 1)
    threads = outcome.before["server"].threads
    assert f"server: {threads} threads before, {threads + 1} after" in outcome.problems


@pytest.mark.slow
@pytest.mark.parametrize("name", [each.name for each in parts()])
def test_a_short_soak_finds_nothing(root: Path, name: str) -> None:
    command = [sys.executable, "benchmarks/soak_python.py", "--scale", "0.02", name]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
