"""How many queries a second a server answers, how long one waits, and where a request's time goes.

    python benchmarks/serving.py               # everything: ten minutes
    python benchmarks/serving.py --soak 20     # a shorter load with reloads
    python benchmarks/serving.py --rounds 3 --seconds 4

64 clients in a closed loop, six servers in turn: the model computes queries together (batched), one by one, or
together by onnxruntime (exported), in one process or in two; the same framework's endpoint that does nothing stands
beside them. Clients and servers share the machine. Then load with a reload every 10 seconds on two workers, and
malformed requests.
"""

import argparse
import asyncio
import json
import random
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from results import write_result
from served import WAYS, Connection, Process, Replies, load_with

NUM_CLIENTS = 64
TIMES = ("request_seconds", "queue_seconds", "batch_seconds")
RELOAD_EVERY_SECONDS = 10


async def bodies_for(port: int, *, count: int) -> list[bytes]:
    """Queries about the items and features of the server itself."""
    connection, draw = Connection(port), random.Random(0)
    _, _, content = await connection.ask("GET", "/v1/items?limit=100")
    items = [each["item"] for each in json.loads(content)["items"]]
    _, _, content = await connection.ask("GET", "/v1/schema")
    features = [each for each in json.loads(content)["features"] if each["values"] or each["edges"]]
    bodies: list[bytes] = []
    for _ in range(count):
        context = {
            each["name"]: [draw.choice(each["values"])]
            if each["kind"] == "multi_categorical"
            else draw.choice(each["values"] or each["edges"])
            for each in features
        }
        query = {"items": [*draw.sample(items, draw.randint(3, 7)), "[MASK]"], "context": context}
        bodies.append(json.dumps(query).encode())
    return bodies


async def times_of(port: int) -> dict[str, tuple[float, float]]:
    """Sum and count of the server's own clocks."""
    _, _, content = await Connection(port).ask("GET", "/metrics")
    lines = [line for line in content.decode().splitlines() if not line.startswith("#")]
    found: dict[str, tuple[float, float]] = {}
    for name in (*TIMES, "batch_queries"):
        label = 'route="/v1/complete"' if name == "request_seconds" else ""
        values = [
            sum(  # of several workers each has a line
                float(line.split()[-1])
                for line in lines
                if line.startswith((f"contextual_bert_{name}{part}{{", f"contextual_bert_{name}{part} "))
                and label in line
            )
            for part in ("_sum", "_count")
        ]
        found[name] = values[0], values[1]
    return found


def milliseconds(replies: Replies) -> dict[str, float]:
    """Percentiles of what the clients waited."""
    median, high = np.percentile(replies.seconds, (50, 99))
    return {"p50_milliseconds": 1000 * float(median), "p99_milliseconds": 1000 * float(high)}


def in_turn(servers: dict[str, Process], *, rounds: int, seconds: float) -> dict[str, Any]:
    """Rounds in which every server has its turn; throughput is the median over rounds."""
    bodies = asyncio.run(bodies_for(servers["batched"].port, count=512))
    rates: dict[str, list[float]] = {way: [] for way in servers}
    replies = {way: Replies() for way in servers}
    before: dict[str, Any] = {}
    taken = dict.fromkeys(servers, 0.0)
    for turn in range(rounds + 1):  # the first is a warm-up
        for way, server in servers.items():
            start = server.processor_seconds()
            found = asyncio.run(load_with(server.port, bodies, num_clients=NUM_CLIENTS, seconds=seconds))
            if turn == 0:
                before[way] = asyncio.run(times_of(server.port)) if way != "empty" else None
                continue
            if set(found.statuses) != {200}:
                raise RuntimeError(f"{way}: answers other than 200: {found.statuses}")
            taken[way] += server.processor_seconds() - start
            rates[way].append(len(found.seconds) / seconds)
            replies[way].seconds += found.seconds
    result: dict[str, Any] = {}
    for way, server in servers.items():
        result[way] = {"queries_per_second": statistics.median(rates[way]), **milliseconds(replies[way])}
        result[way]["processor_milliseconds"] = 1000 * taken[way] / len(replies[way].seconds)
        if way == "empty":
            continue
        after = asyncio.run(times_of(server.port))
        means = {
            name: (after[name][0] - before[way][name][0]) / (after[name][1] - before[way][name][1]) for name in after
        }
        at_client = statistics.fmean(replies[way].seconds)
        result[way]["mean_batch_queries"] = means["batch_queries"]
        result[way]["mean_milliseconds"] = {
            "at the client": 1000 * at_client,
            "in the queue": 1000 * means["queue_seconds"],
            "in the model": 1000 * means["batch_seconds"],
            "in the rest of the server": 1000
            * (means["request_seconds"] - means["queue_seconds"] - means["batch_seconds"]),
            "sockets and client": 1000 * (at_client - means["request_seconds"]),
        }
    return result


async def soak(server: Process, *, seconds: float) -> dict[str, Any]:
    """Load with reloads: nothing may be lost, and memory must not grow."""
    bodies = await bodies_for(server.port, count=512)
    await load_with(server.port, bodies, num_clients=NUM_CLIENTS, seconds=min(5, seconds))
    memory = [server.resident_mib()]
    every = min(RELOAD_EVERY_SECONDS, seconds / 3)

    async def reload() -> None:
        end = time.perf_counter() + seconds - every / 2
        while time.perf_counter() + every < end:
            await asyncio.sleep(every)
            status, _, content = await Connection(server.port).ask("POST", "/v1/admin/reload")
            if status != 200:
                raise RuntimeError(f"reload: {content.decode()}")
            memory.append(server.resident_mib())

    asked = load_with(server.port, bodies, num_clients=NUM_CLIENTS, seconds=seconds)
    replies, _ = await asyncio.gather(asked, reload())
    memory.append(server.resident_mib())
    return {
        "seconds": seconds,
        "num_requests": len(replies.seconds),
        "statuses": {str(status): count for status, count in sorted(replies.statuses.items())},
        "num_reloads": len(memory) - 2,
        "num_versions_seen": len(replies.versions),
        **milliseconds(replies),
        "resident_mib": memory,
    }


def malformed(number: int) -> bytes:
    """A request that is wrong in one of many ways: cut short, with bytes changed, or with values that do not fit."""
    draw = random.Random(number)
    good = json.dumps({"items": ["a", "[MASK]"], "context": {"age": 34}, "deny": ["b"], "repeats": True})
    if number % 4 == 0:
        return good[: draw.randrange(len(good) - 1)].encode()
    if number % 4 == 1:
        changed = bytearray(good.encode())
        for _ in range(1 + number % 5):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        return bytes(changed)
    if number % 4 == 2:
        return draw.choice([b"[" * 5000, b'{"items":' * 400, b"9" * 6000, b'["\\ud800"]', b"{}" * 9, b"\x00" * 64])
    junk = [None, True, -1, 1e300, "", "x" * 500, [], {}, [[]], {"a": {}}, "\x00", ["[MASK]"] * 99]
    keys = ["items", "context", "where", "allow", "budget", "in_stock", "at_most_one_per", "repeats", "nothing"]
    return json.dumps([{draw.choice(keys): draw.choice(junk) for _ in range(3)}]).encode()


async def refuse(server: Process, *, count: int) -> dict[str, Any]:
    """Malformed requests: each gets its problem, none is a mistake of the server, and memory stays."""
    connection, statuses = Connection(server.port), dict[str, int]()
    before = server.resident_mib()
    for number in range(count):
        status, headers, content = await connection.ask("POST", "/v1/complete", malformed(number))
        statuses[str(status)] = statuses.get(str(status), 0) + 1
        if status >= 500 or (status >= 400 and "problem" not in headers["content-type"]) or b"Traceback" in content:
            raise RuntimeError(f"request {number} got {status}: {content[:500]!r}")
        if number == count // 10:
            before = server.resident_mib()  # what is made once is there
    return {"num_requests": count, "statuses": statuses, "grown_mib": server.resident_mib() - before}


def measure(
    *, num_items: int = 30_000, rounds: int = 5, seconds: float = 6, soak_seconds: float = 0, num_malformed: int = 0
) -> dict[str, Any]:
    """The result as plain values."""
    servers: dict[str, Process] = {}
    try:
        for way in WAYS:
            servers[way] = Process(way, num_items=num_items)
        result: dict[str, Any] = {
            "num_items": num_items,
            "num_clients": NUM_CLIENTS,
            "rounds": rounds,
            "seconds_per_round": seconds,
            "ways": in_turn(servers, rounds=rounds, seconds=seconds),
        }
        if soak_seconds:
            result["soak"] = asyncio.run(soak(servers["two workers"], seconds=soak_seconds))
        if num_malformed:
            result["malformed"] = asyncio.run(refuse(servers["batched"], count=num_malformed))
    finally:
        for server in servers.values():
            server.end()
    return result


def main() -> None:
    """Measure and print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="load with reloads for so long (default: 300)")
    parser.add_argument("--malformed", type=int, metavar="COUNT", help="malformed requests (default: 10000)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each server")
    parser.add_argument("--seconds", type=float, default=6, help="of a turn")
    parser.add_argument("--quick", action="store_true", help="a small vocabulary and a few seconds")
    parser.add_argument("--output", type=Path, help="write the result there as JSON")
    arguments = parser.parse_args()
    sizes: dict[str, Any] = {"rounds": arguments.rounds, "seconds": arguments.seconds}
    if arguments.quick:
        sizes = {"num_items": 500, "rounds": 1, "seconds": 1.0}
    soak_seconds = arguments.soak if arguments.soak is not None else 0 if arguments.quick else 300
    num_malformed = arguments.malformed if arguments.malformed is not None else 0 if arguments.quick else 10_000
    write_result(measure(**sizes, soak_seconds=soak_seconds, num_malformed=num_malformed), arguments.output)


if __name__ == "__main__":
    main()
