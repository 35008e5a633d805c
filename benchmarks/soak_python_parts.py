"""What the soak of the Python backend does to a server, part by part, and how each answer is judged.

A part runs a number of units (rounds, calls, responses, kills) on a few threads and says in a ``Seen`` what came of
them. Every call has to be answered once: rightly, or with an error that the part causes.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import signal
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc_messages
import http2_call
import payloads
import servers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from servers import Server

GUARD_S = 60.0
"""What is not answered by then is not answered at all."""
INTERNAL_ERROR = 500
_HEAD_SIZE = "Inference-Header-Content-Length"
CLIENTS = 4
RESPONSES_A_CALL = 1000
LARGE = 40_000
"""Numbers in a tensor that travels in a slab."""
VICTIMS = 12
KILLS_A_LOAD = 3
"""Workers that keep dying are started again later and later, and at last not at all: their model is loaded anew."""
RECOVERY_S = 30.0
SHOWN = 5
CAUSED = ("Stub process", "is not ready", "is not found", "unknown model")
"""What errors say that a killed worker, or its model's reload, is the cause of."""


@dataclass
class Seen:
    """What clients saw. ``excused`` are answers with an error that the part has caused; ``wrong`` says what is not."""

    begun: int = 0
    answered: int = 0
    excused: int = 0
    wrong: list[str] = field(default_factory=list[str])

    def add(self, other: Seen) -> None:
        """Count the other's too."""
        self.begun += other.begun
        self.answered += other.answered
        self.excused += other.excused
        self.wrong += other.wrong

    def problems(self) -> list[str]:
        """What does not hold, as sentences."""
        found = self.wrong[:SHOWN]
        if len(self.wrong) > SHOWN:
            found.append(f"{len(self.wrong) - SHOWN} more like these")
        if self.begun != self.answered + self.excused:
            found.append(f"{self.begun} calls, {self.answered} answers and {self.excused} excused")
        return found


@dataclass(frozen=True)
class Part:
    """One part: how many units, how many at least to warm up with, the models, and what is done with them.

    ``models`` is where each comes from below `benchmarks/`. ``loaded`` is whether they are there from the start.
    ``counting`` is what the server must have counted for each call: ``success``, ``failures``, or "" for neither.
    """

    name: str
    count: int
    warm_up: int
    models: dict[str, str]
    drive: Callable[[Server, int], Seen]
    loaded: bool = True
    counting: str = ""


@dataclass(frozen=True)
class Answer:
    """What came back over HTTP. ``outputs`` are the raw tensors, ``error`` is what it says where it is one."""

    status: int
    outputs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    error: str = ""

    @classmethod
    def read(cls, status: int, data: bytes, head_size: int) -> Answer:
        """From the body: a JSON document, and the outputs behind it."""
        document: dict[str, Any] = json.loads(data[:head_size]) if data else {}
        outputs: dict[str, bytes] = {}
        at = head_size
        for output in document.get("outputs", ()):
            size = output["parameters"]["binary_data_size"]
            outputs[output["name"]] = data[at : at + size]
            at += size
        return cls(status, outputs, str(document.get("error", "")))


class Asker:
    """One client on one connection, over HTTP."""

    def __init__(self, server: Server) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=GUARD_S)

    def ask(self, model: str, number: int, elements: int = 1) -> Answer:
        """Send a number, so many times in one tensor. Raises OSError or HTTPException where no answer comes."""
        tensor = {
            "name": "IN",
            "datatype": "INT32",
            "shape": [elements],
            "parameters": {"binary_data_size": elements * 4},
        }
        head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
        body = head + struct.pack("<i", number) * elements
        return self._post(f"/v2/models/{model}/infer", body, {_HEAD_SIZE: str(len(head))})

    def control(self, model: str, verb: str) -> str:
        """Load or unload a model; what the server has against it, "" for nothing."""
        answer = self._post(f"/v2/repository/models/{model}/{verb}", b"{}", {})
        return "" if answer.status == servers.OK else f"{verb} of {model} was answered with {answer}"

    def _post(self, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        try:
            self._connection.request("POST", path, body, headers)
            response = self._connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        return Answer.read(response.status, data, int(response.headers.get(_HEAD_SIZE, len(data))))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def echo_problem(answer: Answer, number: int, elements: int = 1) -> str:
    """What is wrong with the answer of a model that sends its numbers back; "" for nothing."""
    if answer.status != servers.OK:
        return f"{number} was answered with {answer.status}: {answer.error}"
    got = answer.outputs.get("OUT", b"")
    return "" if got == struct.pack("<i", number) * elements else f"{number} came back as {len(got)} bytes {got[:8]!r}…"


def raising_problem(answer: Answer, number: int) -> str:
    """The same for the model that raises."""
    if answer.status == INTERNAL_ERROR and f"ValueError: no answer to {number}." in answer.error:
        return ""
    return f"{number} was answered with {answer.status}: {answer.error[:200]}"


def stream_problem(messages: list[bytes], count: int) -> str:
    """The same for a request whose ``count`` responses are the numbers from 0 on, with the final flag once, last."""
    answers = [grpc_messages.stream_answer(message) for message in messages]
    error = next((answer.error for answer in answers if answer.error), "")
    if error:
        return f"a stream of {count} responses ended with: {error}"
    got = [answer.outputs[0] for answer in answers if answer.outputs]
    if got != [index.to_bytes(4, "little") for index in range(count)]:
        return f"{len(got)} responses instead of {count} in order"
    finals = [index for index, answer in enumerate(answers) if answer.final]
    return "" if finals == [len(answers) - 1] else f"of {len(answers)} messages these are final: {finals}"


def crowd(server: Server, count: int, work: Callable[[Asker, int, int, Seen], None], clients: int = CLIENTS) -> Seen:
    """Do ``count`` units of work on some threads: ``work(asker, client, unit, seen)``; what all of them saw."""
    units = _shared(range(count))
    each = [Seen() for _ in range(clients)]

    def client(index: int) -> None:
        asker, seen = Asker(server), each[index]
        for unit in units:
            try:
                work(asker, index, unit, seen)
            except (OSError, http.client.HTTPException, http2_call.CallFailed, ValueError) as error:
                seen.wrong.append(f"no answer: {error!r}")
        asker.close()

    threads = [threading.Thread(target=client, args=(index,)) for index in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Seen()
    for seen in each:
        found.add(seen)
    return found


def _shared(units: range) -> Iterator[int]:
    """Each unit once, whichever thread takes it: next() of a range's iterator is one step of the interpreter."""
    return iter(units)


def loads(server: Server, rounds: int) -> Seen:
    """Load, one answer, unload; each client a model of its own."""

    def work(asker: Asker, client: int, unit: int, seen: Seen) -> None:
        seen.begun += 1
        model = f"echo_{client}"
        problem = asker.control(model, "load")
        problem = problem or echo_problem(asker.ask(model, unit, LARGE), unit, LARGE)
        problem = asker.control(model, "unload") or problem
        _judge(seen, problem)

    return crowd(server, rounds, work)


def raises(server: Server, calls: int) -> Seen:
    """Calls whose model raises: each gets its own exception."""

    def work(asker: Asker, _: int, unit: int, seen: Seen) -> None:
        seen.begun += 1
        _judge(seen, raising_problem(asker.ask("raising", unit), unit))

    return crowd(server, calls, work)


def responses(server: Server, count: int) -> Seen:
    """Decoupled responses, a thousand a call; calls are counted."""
    each = min(count, RESPONSES_A_CALL)
    message = payloads.integers_grpc("repeat_int32", each, empty_final=True).message

    def work(_: Asker, __: int, ___: int, seen: Seen) -> None:
        seen.begun += 1
        reply = http2_call.call(server.grpc_port, grpc_messages.STREAM, message, timeout_s=GUARD_S)
        _judge(seen, stream_problem(reply.messages, each))

    return crowd(server, max(1, count // each), work)


def _judge(seen: Seen, problem: str) -> None:
    if problem:
        seen.wrong.append(problem)
    else:
        seen.answered += 1


class Killing:
    """Traffic on a number of models whose workers are killed one after the other, and have to come back."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._pids: dict[str, int] = {}
        self._killed: dict[str, int] = {}
        self._since_load = dict.fromkeys(victims(), 0)
        self._stop = threading.Event()
        self._killer_saw = Seen()

    def run(self, count: int) -> Seen:
        """Kill ``count`` times while clients ask."""
        killer = threading.Thread(target=self._kill_all, args=(count,))
        killer.start()
        seen = crowd(self._server, CLIENTS, self._ask_on)
        killer.join()
        self._load_anew()
        seen.wrong += self._killer_saw.wrong
        return seen

    def _ask_on(self, asker: Asker, client: int, _: int, seen: Seen) -> None:
        """Ask victims at random, now with a tensor in a frame and now with one in a slab, until the killer is done."""
        choice = random.Random(client)  # noqa: S311  to be the same again, not to be secret
        for number in itertools.count():
            if self._stop.is_set():
                return
            model, elements = choice.choice(victims()), choice.choice((1, 1, 1, LARGE))
            seen.begun += 1
            answer = asker.ask(model, number, elements)
            problem = echo_problem(answer, number, elements)
            if not problem:
                seen.answered += 1
                (self._pids[model],) = struct.unpack("<i", answer.outputs["PID"])
            elif any(cause in problem for cause in CAUSED):
                seen.excused += 1
            else:
                seen.wrong.append(problem)

    def _kill_all(self, count: int) -> None:
        asker = Asker(self._server)
        try:
            for model in itertools.islice(itertools.cycle(victims()), count):
                self._kill(asker, model)
            for model in victims():
                self._alive(model)
        except (OSError, http.client.HTTPException, RuntimeError) as error:
            self._killer_saw.wrong.append(f"the killer gave up: {error}")
        finally:
            asker.close()
            self._stop.set()

    def _load_anew(self) -> None:
        """Have each model loaded once more, so that no slab is kept warm for it."""
        asker = Asker(self._server)
        for model in victims():
            problem = asker.control(model, "unload") or asker.control(model, "load")
            problem = problem or echo_problem(asker.ask(model, 1), 1)
            self._killer_saw.wrong += [problem] if problem else []
        asker.close()

    def _kill(self, asker: Asker, model: str) -> None:
        if self._since_load[model] == KILLS_A_LOAD:
            self._since_load[model] = 0
            self._killed[model] = self._alive(model)
            for problem in (asker.control(model, "unload"), asker.control(model, "load")):
                if problem:
                    raise RuntimeError(problem)
        pid = self._alive(model)
        if pid not in self._server.tree():
            msg = f"{model} answered from process {pid}, which is not the server's"
            raise RuntimeError(msg)
        self._killed[model] = pid
        self._since_load[model] += 1
        os.kill(pid, signal.SIGKILL)

    def _alive(self, model: str) -> int:
        """The worker that answers for a model, not one that is dead; wait until there is one."""
        end = time.monotonic() + RECOVERY_S
        while time.monotonic() < end:
            pid = self._pids.get(model, 0)
            if pid and pid != self._killed.get(model):
                return pid
            time.sleep(0.005)
        msg = f"{model} has not answered within {RECOVERY_S:.0f} s since its worker was killed"
        raise RuntimeError(msg)


def victims() -> list[str]:
    """The models whose workers are killed."""
    return [f"victim_{index}" for index in range(VICTIMS)]


def parts() -> list[Part]:
    """All of them, in full size."""
    echoes = {f"echo_{client}": "soak_python_models/echo" for client in range(CLIENTS)}
    raising = {"raising": "soak_python_models/raising"}
    repeat = {"repeat_int32": "models/repeat_int32"}
    dying = dict.fromkeys(victims(), "soak_python_models/victim")
    return [
        Part("loads", 1000, 40, echoes, loads, loaded=False),
        Part("raises", 100_000, 3000, raising, raises, counting="failures"),
        Part("responses", 100_000, 5000, repeat, responses, counting="success"),
        Part("kills", 200, VICTIMS, dying, lambda server, count: Killing(server).run(count)),
    ]
