"""Daemon threads, which do not keep a process from ending."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import Future

import pytest

from topicpolicies_server.tasks import DaemonThreads


def test_calls_run_in_order_and_their_futures_have_the_result_or_the_error() -> None:
    threads = DaemonThreads(1, "readers")
    done: list[int] = []
    futures: list[Future[None]] = [threads.submit(done.append, number) for number in range(100)]
    failing = threads.submit(int, "none")
    threads.shutdown()
    assert all(future.result(20) is None for future in futures)
    assert done == list(range(100))
    with pytest.raises(ValueError, match="none"):
        failing.result()


def test_as_many_calls_run_at_the_same_time_as_there_are_threads() -> None:
    threads = DaemonThreads(3, "readers")
    together = threading.Barrier(3)
    assert sorted(future.result() for future in [threads.submit(together.wait, 20) for _ in range(3)]) == [0, 1, 2]
    threads.shutdown()


def test_after_a_shutdown_new_calls_are_refused_and_cancelled_ones_do_not_run() -> None:
    threads = DaemonThreads(1, "readers")
    gate = threading.Event()
    first, second = threads.submit(gate.wait, 20), threads.submit(int)
    assert second.cancel()
    threads.shutdown(wait=False)
    with pytest.raises(RuntimeError, match="readers were shut down"):
        threads.submit(int)
    gate.set()
    assert first.result(20)


def test_a_process_ends_although_one_of_its_daemon_threads_never_does() -> None:
    program = (
        "import time; from topicpolicies_server.tasks import DaemonThreads; threads = DaemonThreads(2, 'readers');"
        "threads.submit(time.sleep, 1_000); print(threads.submit(int, 4).result()); threads.shutdown(wait=False)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "4\n"
