"""Figures are measured on a quiet machine, or are marked otherwise."""

from __future__ import annotations

from itertools import chain, repeat

from bench.figures.conditions import await_quiet, here


def waited(loads: list[float], patience: float) -> tuple[bool, float, list[str]]:
    source, slept, messages = chain(loads, repeat(loads[-1])), [0.0], list[str]()

    def sleep(seconds: float) -> None:
        slept[0] += seconds

    return await_quiet(patience, messages.append, lambda: next(source), sleep), slept[0], messages


def test_on_a_quiet_machine_there_is_no_wait() -> None:
    assert waited([0.4], 300) == (True, 0.0, [])


def test_the_command_waits_until_the_load_average_is_low() -> None:
    quiet, slept, messages = waited([3.0, 2.0, 1.4, 0.9], 300)
    assert quiet and slept == 15 and messages == [f"the load average is {load}; waiting for 1" for load in ("3.0", "2.0", "1.4")]


def test_the_wait_for_a_quiet_machine_ends_after_the_given_patience() -> None:
    quiet, slept, _ = waited([3.0], 60)
    assert not quiet and slept == 60
    assert waited([3.0], 0)[:2] == (False, 0.0)


def test_the_conditions_say_whether_the_machine_was_quiet() -> None:
    now = here()
    assert now.cores > 0 and now.memory_gb > 0.1 and now.processor and now.disk in now.line
    assert "BUSY" in now._replace(load=1.5).line and "BUSY" not in now._replace(load=0.5).line
    assert "no etcd" in now._replace(etcd="").line and "etcd 3.4.23" in now._replace(etcd="3.4.23").line
