"""How the server's doors hold: `/health` while the engine works, clients that leave, connections that say nothing.

```sh
python -m benchmarks.doors model.gguf            # a few minutes; --disconnects 1000
```
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from server.scheduling import ask_for_short_slices
from testing.server_process import BankmlServer

MIB = 2**20
HALF_OPEN = 64


def percentiles(seconds: Sequence[float]) -> str:
    """Median, p99 and worst of some times, in milliseconds."""
    ordered = sorted(seconds)
    median, p99 = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return f"median {1e3 * median:.2f} ms, p99 {1e3 * p99:.2f} ms, worst {1e3 * ordered[-1]:.2f} ms of {len(ordered)}"


def memory(pid: int) -> tuple[float, float]:
    """The process's anonymous memory and its part in the swap, in MiB."""
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    held = {words[0]: int(words[1]) / 1024 for words in lines if words and words[0] in ("RssAnon:", "VmSwap:")}
    return held["RssAnon:"], held["VmSwap:"]


def send(server: BankmlServer, path: str, body: object | None = None) -> socket.socket:
    """A connection with a request on it."""
    data = b"" if body is None else json.dumps(body).encode()
    method = "GET" if body is None else "POST"
    client = socket.create_connection(("127.0.0.1", server.port), timeout=120)
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    client.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    return client


def health_times(server: BankmlServer, seconds: float) -> list[float]:
    """How long `/health` takes on a connection that is kept, every few milliseconds."""
    times = []
    ends_at = time.perf_counter() + seconds
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    ask_for_short_slices()  # that it is the server's wait for the processor that is measured, not that of this thread
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while time.perf_counter() < ends_at:
            started = time.perf_counter()
            client.sendall(request)
            answer = b""
            while not answer.endswith(b"}"):
                answer += client.recv(4096)
            times.append(time.perf_counter() - started)
            time.sleep(0.005)
    return times


@contextmanager
def kept_busy(server: BankmlServer, body: object) -> Iterator[None]:
    """Somebody streams one answer after another meanwhile."""
    over = threading.Event()

    def stream() -> None:
        while not over.is_set():
            with send(server, "/completion", body) as client:
                while not over.is_set() and client.recv(65536):
                    pass

    thread = threading.Thread(target=stream)
    thread.start()
    time.sleep(0.2)
    try:
        yield
    finally:
        over.set()
        thread.join()


def prompt(n_words: int) -> str:
    """Words that no earlier prompt began with."""
    return " ".join(str(random.randrange(10, 100)) for _ in range(n_words))


def leave(server: BankmlServer, *, in_answer: bool, streamed: bool) -> float:
    """Ask for a long answer and leave; when that was."""
    body = {"prompt": prompt(4 if in_answer else 600), "n_predict": -1, "ignore_eos": True, "stream": streamed}
    with send(server, "/completion", body) as client:
        if in_answer and streamed:
            client.recv(4096)
        else:
            time.sleep(0.03)
    return time.perf_counter()


def free_times(server: BankmlServer, count: int, *, in_answer: bool, streamed: bool) -> list[float]:
    """For each client that leaves, how long the slot is still taken."""
    times = []
    for _ in range(count):
        started = leave(server, in_answer=in_answer, streamed=streamed)
        while server.get("/slots")[0]["is_processing"]:
            time.sleep(0.01)  # asking more often takes a core from the engine, which then takes longer to stop
        times.append(time.perf_counter() - started)
    return times


def sampled(server: BankmlServer) -> int:
    """Tokens that the server has sampled so far, in answers that are over."""
    lines = server.client.get("/metrics").text.splitlines()
    return int(float(next(line.split()[1] for line in lines if line.startswith("llamacpp:tokens_predicted_total "))))


def tokens_after(server: BankmlServer, count: int) -> list[int]:
    """For each client that leaves a stream, how many tokens were sampled beyond those that it had read."""
    found = []
    for number in range(count):
        before, n_read = sampled(server), 0
        body = {"prompt": prompt(4), "n_predict": -1, "ignore_eos": True, "stream": True}
        with send(server, "/completion", body) as client:
            while n_read < 3 + number % 8:
                n_read += client.recv(65536).count(b'"content"')
        while server.get("/slots")[0]["is_processing"]:
            time.sleep(0.01)
        found.append(sampled(server) - before - n_read)
    return found


def measure_health(server: BankmlServer, seconds: float) -> None:
    """`/health` while nothing happens, while a token follows the other, and while long prompts are read."""
    print(f"health, idle:            {percentiles(health_times(server, seconds))}")
    with kept_busy(server, {"prompt": "Once", "n_predict": 400, "ignore_eos": True, "stream": True}):
        print(f"health, while decoding:  {percentiles(health_times(server, seconds))}")
    with kept_busy(server, {"prompt": prompt(800), "n_predict": 1, "cache_prompt": False, "stream": True}):
        print(f"health, in a prompt:     {percentiles(health_times(server, seconds))}")


def measure_disconnects(server: BankmlServer, count: int) -> None:
    """Clients that leave, in eight ways."""
    ways = [(in_answer, streamed) for in_answer in (True, False) for streamed in (True, False)]
    for in_answer, streamed in ways:  # what is allocated once
        free_times(server, 3, in_answer=in_answer, streamed=streamed)
    before = memory(server.pid)
    for in_answer, streamed in ways:
        times = free_times(server, count // 8, in_answer=in_answer, streamed=streamed)
        where = f"{'in the answer' if in_answer else 'in the prompt'}, {'streamed' if streamed else 'whole'}"
        print(f"slot free again, {where}: {percentiles(times)}")
    extra = Counter(tokens_after(server, max(8, count // 8)))
    print(f"tokens beyond the last one read: {', '.join(f'{n} in {extra[n]} answers' for n in sorted(extra))}")
    with kept_busy(server, {"prompt": "Once", "n_predict": 20, "ignore_eos": True, "stream": True}):
        for in_answer, streamed in ways:
            for _ in range(count // 8):
                leave(server, in_answer=in_answer, streamed=streamed)
    while server.get("/slots")[0]["is_processing"]:
        time.sleep(0.01)
    after = memory(server.pid)
    print(f"RssAnon before and after {count} disconnects: {before[0]:.1f} and {after[0]:.1f} MiB")
    print(f"swap before and after: {before[1]:.1f} and {after[1]:.1f} MiB")


def measure_half_open(server: BankmlServer) -> None:
    """`/health` beside connections that sent half a head, half a body or nothing."""
    begun = [b"", b"POST /completion HT", b"POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"]
    held = []
    for number in range(HALF_OPEN):
        held.append(socket.create_connection(("127.0.0.1", server.port)))
        held[-1].sendall(begun[number % len(begun)])
    times = []
    for _ in range(100):
        started = time.perf_counter()
        with send(server, "/health") as client:
            client.recv(4096)
        times.append(time.perf_counter() - started)
    print(f"health on new connections beside {HALF_OPEN} half-open ones: {percentiles(times)}")
    for client in held:
        client.close()


def main() -> None:
    """Everything, on one server."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", type=Path)
    parser.add_argument("--disconnects", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--ubatch", type=int, default=512, help="tokens after which a prompt can be stopped")
    asked = parser.parse_args()
    flags = ["-c", "2048", "--cache-ram", "0", "-ub", str(asked.ubatch), "--metrics"]
    with BankmlServer(asked.model, *flags, threads=asked.threads) as server:
        measure_health(server, asked.seconds)
        measure_half_open(server)
        measure_disconnects(server, asked.disconnects)


if __name__ == "__main__":
    main()
