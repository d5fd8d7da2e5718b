"""Runs ``contextual-bert`` commands without starting Python for each: imports once, then forks for every call.

``python command_server.py SOCKET`` listens; ``SHIM`` is the text of a program that stands in for the console script and
hands its arguments, folder and streams over. Nothing is computed before a fork, so the children start with no threads.

Where the environment of the caller has ``QUICK_STEPS``, trainings for which nobody names epochs take one. Outputs that
it names, with commas between them, are trained as a reader would train them.
"""

import array
import json
import os
import socket
import sys
from typing import Any

SHIM = """#!{python} -SE
import array, json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
streams = array.array("i", [0, 1, 2])
server.sendmsg([len(asked).to_bytes(8, "little")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
server.sendall(asked)
sys.exit(int(server.recv(16).decode() or 1))
"""
MOST_STREAMS = 3


def main(path: str) -> None:
    import torch

    torch.set_num_threads(1)
    import transformers  # noqa: F401

    import contextual_bert.runs
    import contextual_bert.server  # noqa: F401
    import contextual_bert_cli.main  # noqa: F401

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    print("ready", flush=True)
    while True:
        caller, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            answer(caller)
        caller.close()
        reap()


def reap() -> None:
    """Forget the children that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        pass


def answer(caller: socket.socket) -> None:
    """Run one call in a child of its own, tell its exit code, and end."""
    head, ancillary, _, _ = caller.recvmsg(8, socket.CMSG_LEN(MOST_STREAMS * array.array("i").itemsize))
    streams = array.array("i")
    streams.frombytes(ancillary[0][2])
    length, asked = int.from_bytes(head, "little"), b""
    while len(asked) < length:
        asked += caller.recv(length - len(asked))
    words, folder, environment = json.loads(asked)
    child = os.fork()
    if child == 0:
        caller.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        run(words, folder, environment)
    for stream in streams:
        os.close(stream)
    caller.sendall(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
    os._exit(0)


def run(words: list[str], folder: str, environment: dict[str, str]) -> None:
    """Be the command, and end with its code."""
    os.chdir(folder)
    os.environ.update(environment)
    sys.argv = ["contextual-bert", *words]
    code: Any = 1
    try:
        if "QUICK_STEPS" in environment:
            shorten(words, as_a_reader=environment["QUICK_STEPS"].split(","))
        from contextual_bert_cli.main import main as command

        command()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def shorten(words: list[str], *, as_a_reader: list[str]) -> None:
    """One epoch where nobody names a number, but for these outputs."""
    from contextual_bert.training import defaults

    output = words[words.index("--output") + 1] if "--output" in words[:-1] else ""
    if output not in as_a_reader:
        defaults.default_epochs = lambda num_rows, batch_size, *, usual, fewest_steps, most: 1


if __name__ == "__main__":
    main(sys.argv[1])
