"""Processor time of a program by its threads. The time of a running thread may be behind by a tick of the kernel."""

from __future__ import annotations

import os
import threading
import time

from bench.figures.processors import Processors, Used, note, of_one, seconds_of


def _burn(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_the_processor_time_of_a_thread_is_not_counted_for_the_loop() -> None:
    done, over = threading.Event(), threading.Event()

    def work() -> None:
        _burn(0.03)
        done.set()
        over.wait(30)

    thread = threading.Thread(target=work)
    processors = Processors(os.getpid())
    before = threading.main_thread().native_id == os.getpid()
    thread.start()
    assert done.wait(30)
    first = processors.used()
    over.set()
    thread.join()
    assert before and first.library >= 0.03 and first.broker == 0.0

    _burn(0.03)
    second = processors.used()
    assert second.loop >= 0.02 > second.library + second.grpc


def test_the_processor_time_of_the_broker_is_that_of_all_its_threads() -> None:
    processors = Processors(0, os.getpid())
    _burn(0.02)
    used = processors.used()
    assert used.broker >= 0.01 and (used.loop, used.grpc, used.library) == (0.0, 0.0, 0.0)
    assert len(seconds_of(os.getpid())) >= 1 and not seconds_of(0)


def test_a_note_has_the_medians_of_the_rounds_for_one_unit_of_work() -> None:
    rounds = [of_one(Used(loop, 10.0, 20.0, 40.0), 100_000) for loop in (10.0, 90.0, 20.0)]
    assert note("an update", rounds) == (
        "processor time of an update: the server's 500 us (its loop 200, gRPC's threads 100, others 200), the broker's 400"
    )
    assert note("an event", [Used(1e-6, 0.0, 0.0, 0.0)]) == (
        "processor time of an event: the server's 1 us (its loop 1, gRPC's threads 0, others 0)"
    )
