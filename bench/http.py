"""How fast the port answers beside a working service, and how much of that is HTTP alone.

    python -m bench.http [--target HOST:PORT] [--requests 1000]

1. Start `streamer run` over a real broker, fed with made-up news all the time, with the questions on; or take one that runs.
2. Ask it to check documents, one request after the other over one connection: one document each, then ten, then a hundred.
3. Between two such requests ask for the description, which the same server answers without any work: the bare endpoint.

Prints p50 and p99 in milliseconds, and the ratio of each to the bare endpoint at the same time.
"""

import argparse
import http.client
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass

import numpy as np
import orjson
from rich.console import Console
from rich.table import Table

from deploy.fed_service import ServiceFailed, fed_service
from deploy.local_kafka import LocalKafkaError
from streamer.demo.demo import documents

WARM_UP = 50
SETTINGS = ("ask.enabled=true", "ask.requests_per_second=100000")


@dataclass(frozen=True, slots=True)
class Row:
    documents: int
    requests: int
    p50_ms: float
    p99_ms: float
    bare_p50_ms: float
    bare_p99_ms: float


def bodies(count: int, each: int) -> list[bytes]:
    """Bodies of `count` requests with `each` documents: made-up news, of another seed than what the service is fed."""
    news = []
    for line in documents(2_000, 7_919):
        # Some of the made-up lines are broken on purpose.
        with suppress(orjson.JSONDecodeError):
            news.append(orjson.loads(line))
    return [
        orjson.dumps({"documents": [news[(number * each + place) % len(news)] for place in range(each)]})
        for number in range(count)
    ]


def milliseconds(target: str, requests: list[tuple[str, str, bytes | None]]) -> list[float]:
    """Time of each request (method, path, body), one after the other over one connection."""
    connection = http.client.HTTPConnection(target, timeout=30)
    taken = []
    for method, path, body in requests:
        begin = time.perf_counter()
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        taken.append((time.perf_counter() - begin) * 1000)
        if answer.status != 200:
            raise ServiceFailed(f"{method} {path}: {answer.status} {content[:300]!r}")
    connection.close()
    return taken


def wait_until_answering(target: str) -> None:
    deadline = time.monotonic() + 120
    body = bodies(1, 1)[0]
    while True:
        try:
            milliseconds(target, [("POST", "/v1/check", body)])
        except (ServiceFailed, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            return


def measured(target: str, count: int) -> list[Row]:
    wait_until_answering(target)
    rows = []
    for each in (1, 10, 100):
        asked = max(100, count // each)
        requests: list[tuple[str, str, bytes | None]] = []
        for body in bodies(WARM_UP + asked, each):
            requests += [("POST", "/v1/check", body), ("GET", "/v1/openapi.json", None)]
        taken = milliseconds(target, requests)[2 * WARM_UP :]
        p50, p99 = np.percentile(taken[::2], [50, 99])
        rows.append(Row(each, asked, p50, p99, *np.percentile(taken[1::2], [50, 99])))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", help="host:port of a running service without a token; else one is started and fed")
    parser.add_argument("--requests", type=int, default=1_000, help="requests of one document")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    try:
        with ExitStack() as stack:
            rows = measured(options.target or stack.enter_context(fed_service(*SETTINGS)), options.requests)
    except (LocalKafkaError, ServiceFailed, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    if options.json:
        print(orjson.dumps([asdict(row) for row in rows], option=orjson.OPT_SERIALIZE_NUMPY).decode())
        return 0
    table = Table(
        "documents a request", "requests", "p50 ms", "p99 ms", "bare p50 ms", "bare p99 ms", "p50 / bare", "p99 / bare"
    )
    for row in rows:
        table.add_row(
            str(row.documents),
            str(row.requests),
            *(f"{each:.2f}" for each in (row.p50_ms, row.p99_ms, row.bare_p50_ms, row.bare_p99_ms)),
            f"{row.p50_ms / row.bare_p50_ms:.1f}",
            f"{row.p99_ms / row.bare_p99_ms:.1f}",
        )
    Console(width=max(100, Console().width)).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
