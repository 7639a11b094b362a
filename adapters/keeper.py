"""Runs one server for as long as standard input stays open, so that no server outlives the process that asked for it.

Started as a script by `adapters/embedded.py`: `python -I -S keeper.py LOCK_FD COMMAND...`. The asking process holds the
other end of standard input; when it ends, however it ends, the pipe closes and the server is stopped.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from types import FrameType

STOP_S = 8.0
PR_SET_PDEATHSIG = 1


class Stop(Exception):
    """Somebody asked this keeper to end."""


def stop(signum: int, frame: FrameType | None) -> None:
    raise Stop


def die_with_keeper() -> None:
    # Covers a kill -9 of the keeper itself, on Linux; elsewhere the lock that the server inherits tells of it.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end_as(code: int) -> None:
    # As a shell tells of a signal: 137 for a kill.
    os._exit(code if code >= 0 else 128 - code)


def keep(command: list[str], lock: int) -> None:
    """Run `command` until standard input closes or SIGTERM comes; exits with the server's code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, stop)
    # The server inherits the lock: the data folder is free only once nothing writes to it any more. The keeper has
    # one thread at this point, so preexec_fn is safe.
    server = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, pass_fds=(lock,) if lock >= 0 else (), preexec_fn=die_with_keeper
    )
    threading.Thread(target=lambda: end_as(server.wait()), daemon=True).start()
    try:
        while os.read(0, 4096):
            pass
    except (Stop, OSError):
        pass
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server.terminate()
    time.sleep(STOP_S)
    server.kill()
    time.sleep(STOP_S)


if __name__ == "__main__":
    keep(sys.argv[2:], int(sys.argv[1]))
