"""The stages of updates, whose durations are measured."""

from __future__ import annotations

import asyncio

from tests.namespaces.bench import Bench, simulate


def counted(bench: Bench) -> dict[str, float]:
    """Returns how many updates ended each stage."""
    return {name: histogram.cumulated()[-1][1] for name, histogram in bench.registry.common.activity.stages.by_name().items()}


def test_each_written_update_ends_each_stage_once() -> None:
    async def scenario(bench: Bench) -> None:
        await asyncio.gather(*(bench.set(value) for value in range(1, 31)))
        assert counted(bench) == {"waiting": 0, "sequencing": 30, "log": 30, "readback": 30}

    simulate(scenario)


def test_an_update_that_is_not_written_ends_no_stage() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        await bench.set(1)
        assert counted(bench)["sequencing"] == 1

    simulate(scenario)


def test_an_event_that_the_reader_delivers_first_ends_both_stages_at_once() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        bench.opened.answers[0].hold()
        await bench.set(2)
        assert counted(bench)["log"] == counted(bench)["readback"] == 2
        bench.opened.answers[0].release()
        await asyncio.sleep(1)
        assert counted(bench)["log"] == counted(bench)["readback"] == 2

    simulate(scenario, sole_writer=False)
