"""Files of the package in which functions run: for a training until its first loss, a completion, a served one.

    python benchmarks/traces.py                       # all three, as JSON
    python benchmarks/traces.py serve                 # one of them; train leaves the run that the others need
    python benchmarks/traces.py train --functions     # with the functions of each file

Each case is a command in a process of its own, traced by `sys.setprofile` in all threads. What runs while a module is
imported does not count: neither the module itself nor the functions that it calls.

- `train`: `contextual-bert train` up to its first loss.
- `complete`: one `contextual-bert complete` as a whole.
- `serve`: one POST to /v1/complete, from its arrival to its answer, with the connection that brings it. The server has
  answered others before.
"""

import argparse
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from results import write_result

CASES = ("train", "complete", "serve")
PACKAGES = ("contextual_bert", "contextual_bert_cli")
FIRST_LOSS = "compute_loss"  # the method of transformers' Trainer, and of ours
FUNCTION = 1  # CO_OPTIMIZED: set for functions, not for modules and bodies of classes
NUM_ITEMS, NUM_OUTFITS = 60, 1200
START_SECONDS, AFTER_SECONDS = 300, 0.2  # a server's start; the line of the log after an answer


class Trace:
    """The functions that ran, by file, while the trace was on.

    Args:
        until: name of the function whose end switches the trace off.
    """

    def __init__(self, *, until: str | None = None) -> None:
        self.is_on = False
        self.num_switches = 0
        self._functions: dict[str, dict[str, None]] = {}
        self._known: dict[CodeType, tuple[str, str] | None] = {}
        self._until = until
        self._threads = threading.local()
        self._last: str | None = None

    def start(self) -> None:
        """Trace this thread, and each that is started from now on."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def stop(self) -> None:
        """End the trace of this thread, and of those to come."""
        self.is_on = False
        sys.setprofile(None)
        threading.setprofile(None)

    def result(self, *, has_functions: bool) -> dict[str, Any]:
        """Return the counts and the files, with the functions of each if asked for."""
        files = {file: list(names) for file, names in sorted(self._functions.items())}
        return {
            "num_files": len(files),
            "num_functions": sum(map(len, files.values())),
            "num_switches": self.num_switches,
            "files": files if has_functions else list(files),
        }

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call":
            if not code.co_flags & FUNCTION and code.co_name == "<module>":
                self._threads.imports = getattr(self._threads, "imports", 0) + 1
            elif self.is_on and not getattr(self._threads, "imports", 0):
                self._note(code)
        elif event == "return":
            if code.co_name == "<module>":
                self._threads.imports = getattr(self._threads, "imports", 1) - 1
            elif code.co_name == self._until:
                self.is_on = False

    def _note(self, code: CodeType) -> None:
        if code not in self._known:
            self._known[code] = place_of(code)
        place = self._known[code]
        if place is None:
            return
        file, name = place
        self._functions.setdefault(file, {})[name] = None
        if file != self._last:
            self.num_switches += 1
            self._last = file


def place_of(code: CodeType) -> tuple[str, str] | None:
    """Return the file, from the package on, and the name of a function of the package; None for others."""
    parts = Path(code.co_filename).parts
    found = [number for number, part in enumerate(parts) if part in PACKAGES]
    if not found or not code.co_flags & FUNCTION:
        return None
    return "/".join(parts[found[-1] :]), code.co_qualname


def run_traced(trace: Trace, *arguments: object) -> None:
    """Run a command of the command line in this process, with the trace started."""
    from contextual_bert_cli.main import main as run

    sys.argv = ["contextual-bert", *map(str, arguments)]
    trace.start()
    try:
        run()
    except SystemExit as ended:
        if ended.code:
            raise
    finally:
        trace.stop()


def ask_in_turn(trace: Trace, port: int) -> None:
    """Wait for the server of this process, ask it, trace the last request, and end the server."""
    body = json.dumps({"items": ["[MASK]"], "context": {"age": 34}})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask() -> None:
        connection.request("POST", "/v1/complete", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{answer.status}: {content.decode()}")

    try:
        wait_for(port)
        ask()
        trace.is_on = True
        ask()
        time.sleep(AFTER_SECONDS)
        trace.is_on = False
    finally:
        connection.close()
        os.kill(os.getpid(), signal.SIGTERM)


def wait_for(port: int) -> None:
    """Return when somebody listens on the port."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def trace_case(case: str, folder: Path) -> Trace:
    """Trace one of CASES in this process; ``train`` writes the run that the others read."""
    trace = Trace(until=FIRST_LOSS if case == "train" else None)
    run = folder / "run"
    if case == "serve":
        port = free_port()
        threading.Thread(target=ask_in_turn, args=(trace, port), daemon=True).start()
        run_traced(trace, "serve", run, "--port", port)
        return trace
    trace.is_on = True
    if case == "complete":
        run_traced(trace, "complete", run, "--set", "[MASK]", "--context", '{"age": 34}')
    else:
        columns = ("--items", "items", "--customer", "customer_id")
        run_traced(trace, "train", folder / "world" / "outfits.parquet", *columns, "--epochs", 1, "--output", run)
    return trace


def trace_cases(cases: list[str], *, has_functions: bool) -> dict[str, Any]:
    """Return case -> its counts and files. Each is traced in a process of its own."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "contextual_bert_cli.main",
            "world",
            "generate",
            "--items",
            NUM_ITEMS,
            "--outfits",
            NUM_OUTFITS,
        ]
        call([*command, "--output", Path(folder, "world")])
        for case in CASES if cases != ["train"] else cases:
            call([sys.executable, __file__, case, "--inside", folder, *["--functions"] * has_functions])
            found[case] = json.loads(Path(folder, f"{case}.json").read_text("utf-8"))
    return {case: found[case] for case in CASES if case in cases}


def call(command: list[object]) -> None:
    """Run a command; what it prints is shown if it fails."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr}")


def main() -> None:
    """Trace and print, and write the result where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="|".join(CASES), help="default: all")
    parser.add_argument("--functions", action="store_true", help="the functions of each file, too")
    parser.add_argument("--output", type=Path, help="write the result there as JSON")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    cases: list[str] = arguments.cases or list(CASES)
    if unknown := set(cases) - set(CASES):
        parser.error(f"unknown cases: {', '.join(sorted(unknown))}. Known: {', '.join(CASES)}")
    if arguments.inside is not None:
        for case in cases:
            found = trace_case(case, arguments.inside).result(has_functions=arguments.functions)
            Path(arguments.inside, f"{case}.json").write_text(json.dumps(found), encoding="utf-8")
        return
    write_result(trace_cases(cases, has_functions=arguments.functions), arguments.output)


if __name__ == "__main__":
    main()
