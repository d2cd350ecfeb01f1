"""How a guard finds namespaces: which requests it makes to brokers, how often, and how soon it finds them. The time is simulated."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from tests.simulation.loop import SimulatedLoop
from topicpolicies_server.guard import Guard

from .fake_brokers import BROKER, REFUSED, UNREACHABLE, FakeBrokers

SOON = 1.0
PER_SECOND = 20.0


class Finder:
    """A guard that is not started, and the changes of what it has found."""

    def __init__(self, brokers: FakeBrokers, *patterns: str) -> None:
        self.changes: list[frozenset[str]] = []
        self.failures: list[BaseException] = []
        self.guard = Guard(cast("Any", None), cast("Any", brokers), patterns)
        self._changed = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._task, self._noting = loop.create_task(self._run()), loop.create_task(self._note())

    @property
    def found(self) -> frozenset[str]:
        return self.guard.found

    async def _run(self) -> None:
        while True:
            try:
                await self.guard.find()
            except* RuntimeError as errors:
                self.failures += errors.exceptions

    async def _note(self) -> None:
        while True:
            await self.guard.changed.wait()
            self.guard.changed.clear()
            self.changes.append(self.found)
            self._changed.set()

    async def until(self, condition: Callable[[frozenset[str]], bool], seconds: float = 600.0) -> float:
        """Returns how long it takes until a condition holds for the namespaces that were found."""
        began = asyncio.get_running_loop().time()
        async with asyncio.timeout(seconds):
            while not condition(self.found):
                self._changed.clear()
                await self._changed.wait()
        return asyncio.get_running_loop().time() - began

    async def interrupt(self) -> None:
        """Cancels what finds namespaces in the middle of whatever it does, and starts it again."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = asyncio.get_running_loop().create_task(self._run())


def simulate(scenario: Callable[[], Awaitable[None]]) -> None:
    loop = SimulatedLoop(random.Random(1))
    loop.run(_run(scenario))
    assert loop.failures == []


async def _run(scenario: Callable[[], Awaitable[None]]) -> None:
    await scenario()


def cluster(tenants: int, each: int = 1, *, superuser: bool = True) -> FakeBrokers:
    """Returns a cluster with namespaces that no broker has loaded."""
    return FakeBrokers(*(f"tenant-{tenant}/{number}" for tenant in range(tenants) for number in range(each)), superuser=superuser)


LOADED = ("acme/orders", "acme/orders-eu", "acme/stock", "beta/orders", "public/default")


@pytest.mark.parametrize("superuser", [True, False])
@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        (("acme/orders",), {"acme/orders"}),
        (("acme/not-there",), set()),
        (("acme/*",), {"acme/orders", "acme/orders-eu", "acme/stock"}),
        (("acme/orders*", "acme/stock"), {"acme/orders", "acme/orders-eu", "acme/stock"}),
        (("acme/*", "acme/stock"), {"acme/orders", "acme/orders-eu", "acme/stock"}),
        (("nobody/*",), set()),
        (("acme/or.ers", "acme/.*"), set()),
        (("*/orders",), {"acme/orders", "beta/orders"}),
        (("b*/*",), {"beta/orders"}),
        (("*/*",), set(LOADED)),
        (("pulsar/*",), set()),
    ],
)
def test_namespaces_that_match_and_have_a_log_are_found(patterns: tuple[str, ...], found: set[str], superuser: bool) -> None:
    async def scenario() -> None:
        brokers = FakeBrokers("acme/without", "beta/log", superuser=superuser)
        brokers.load(*LOADED)
        finder = Finder(brokers, *patterns)
        await asyncio.sleep(20)
        tenants_seen = superuser or all(not pattern.partition("/")[0].count("*") for pattern in patterns)
        assert finder.found == (found if tenants_seen else set())

    simulate(scenario)


@pytest.mark.parametrize(
    ("patterns", "superuser", "most"),
    [
        (("acme/new",), True, {"log"}),
        (("acme/new",), False, {"log"}),
        (("acme/*",), True, {"log", "loaded", "brokers", "cluster", "namespaces"}),
        (("acme/*",), False, {"log", "namespaces", "cluster"}),
        (("*/new",), True, {"log", "loaded", "brokers", "cluster", "namespaces", "tenants"}),
    ],
)
@pytest.mark.parametrize("tenants", [1, 100, 1_000])
def test_a_namespace_that_a_broker_loads_is_found_in_seconds_however_many_tenants_there_are(
    patterns: tuple[str, ...], superuser: bool, most: set[str], tenants: int
) -> None:
    async def scenario() -> None:
        brokers = cluster(tenants, superuser=superuser)
        finder = Finder(brokers, *patterns)
        await asyncio.sleep(200)
        assert finder.found == set()
        loop = asyncio.get_running_loop()
        since = loop.time()
        brokers.load("acme/new")
        assert await finder.until(lambda found: "acme/new" in found) <= 3 * SOON
        await asyncio.sleep(100)
        asked = brokers.questions(since)
        assert set(asked) <= most
        assert brokers.busiest_second() <= PER_SECOND and brokers.most_at_once == 1
        if patterns != ("*/new",):
            assert asked.total() <= 3.0 * (loop.time() - since), asked  # other tenants are not asked about

    simulate(scenario)


@pytest.mark.slow
def test_namespaces_that_are_loaded_already_are_found_at_once_however_many_there_are() -> None:
    async def scenario() -> None:
        brokers = cluster(300, 10)
        brokers.load(*(f"tenant-{tenant}/{number}" for tenant in range(300) for number in range(5)))
        finder = Finder(brokers, "*/*")
        assert await finder.until(lambda found: len(found) == 1_500) <= 1.0
        await asyncio.sleep(200)
        assert brokers.busiest_second() <= PER_SECOND and brokers.most_at_once == 1
        assert len(finder.found) == 1_500 and brokers.questions()["log"] >= 1_500, "the others were checked too"

    simulate(scenario)


@pytest.mark.parametrize(
    ("pattern", "superuser"),
    [
        ("acme/orders", True),
        ("acme/orders", False),
        ("acme/*", True),
        ("acme/*", False),
        ("*/*", True),  # only superusers may list tenants
    ],
)
def test_a_deleted_namespace_is_released_and_found_again_when_it_is_created_again(pattern: str, superuser: bool) -> None:
    async def scenario() -> None:
        brokers = FakeBrokers("acme/other", superuser=superuser)
        brokers.load("acme/orders")
        finder = Finder(brokers, pattern)
        await finder.until(lambda found: "acme/orders" in found)
        for _ in range(3):
            await asyncio.sleep(100)
            brokers.delete("acme/orders")
            assert await finder.until(lambda found: "acme/orders" not in found) <= 15.0
            brokers.load("acme/orders")
            assert await finder.until(lambda found: "acme/orders" in found) <= 3 * SOON

    simulate(scenario)


def test_a_namespace_that_moves_to_another_broker_or_is_unloaded_is_kept() -> None:
    async def scenario() -> None:
        brokers = FakeBrokers("acme/other")
        brokers.loaded["second:8080"] = set()
        brokers.load("acme/orders")
        finder = Finder(brokers, "*/*")
        await finder.until(lambda found: "acme/orders" in found)
        brokers.loaded[BROKER].clear()
        await asyncio.sleep(200)
        brokers.load("acme/orders", broker="second:8080")
        await asyncio.sleep(200)
        assert finder.changes == [{"acme/orders"}]

    simulate(scenario)


def test_a_loaded_namespace_that_an_outdated_list_lacks_is_kept() -> None:
    async def scenario() -> None:
        brokers = FakeBrokers("acme/other")
        brokers.load("acme/orders")
        brokers.answers["namespaces", "acme"] = ["acme/other"]  # from a cache that does not have the namespace yet
        finder = Finder(brokers, "acme/*")
        await asyncio.sleep(100)
        assert finder.changes == [{"acme/orders"}]

    simulate(scenario)


def test_a_namespace_that_two_patterns_match_is_released_if_it_is_deleted_after_its_broker_is_gone() -> None:
    async def scenario() -> None:
        brokers = FakeBrokers()
        brokers.loaded["other:8080"] = set()
        brokers.load("acme/orders")
        finder = Finder(brokers, "acme/orders", "acme/*")
        await finder.until(lambda found: "acme/orders" in found)
        await asyncio.sleep(60)
        del brokers.loaded[BROKER]
        brokers.errors[("brokers", "east", BROKER)] = UNREACHABLE
        await asyncio.sleep(60)
        assert finder.found == {"acme/orders"}
        brokers.delete("acme/orders")
        assert await finder.until(lambda found: not found) <= 15

    simulate(scenario)


def test_the_namespaces_of_a_deleted_tenant_are_released() -> None:
    async def scenario() -> None:
        brokers = FakeBrokers("beta/log", superuser=True)
        brokers.errors["brokers",] = REFUSED
        brokers.load("acme/orders")
        finder = Finder(brokers, "*/*")
        await finder.until(lambda found: found == {"acme/orders"})
        brokers.delete("acme/orders")
        await finder.until(lambda found: not found, 10)
        await asyncio.sleep(5)
        since = asyncio.get_running_loop().time()
        await asyncio.sleep(60)
        assert ("namespaces", "acme") not in {path for at, path in brokers.asked if at >= since}

    simulate(scenario)


@pytest.mark.parametrize("pattern", ["acme/orders", "acme/*", "*/*"])
def test_while_brokers_do_not_answer_namespaces_are_kept_and_requests_are_rare(pattern: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        brokers = FakeBrokers()
        brokers.load("acme/orders")
        finder = Finder(brokers, pattern)
        await finder.until(lambda found: "acme/orders" in found)
        brokers.errors[()] = UNREACHABLE
        brokers.answer_seconds = 5.0
        await asyncio.sleep(10)
        since = loop.time()
        await asyncio.sleep(600)
        assert finder.found == {"acme/orders"}
        assert brokers.questions(since).total() <= 600 / 9, "each request is repeated for five seconds already"
        brokers.errors.clear()
        brokers.answer_seconds = 0.003
        brokers.load("acme/new")
        if pattern != "acme/orders":
            assert await finder.until(lambda found: "acme/new" in found) <= 20.0

    simulate(scenario)
    logged = [record for record in caplog.records if "namespaces to guard can't be listed, so the present 1 stay" in record.getMessage()]
    assert 9 <= len(logged) <= 11, "once a minute"


@pytest.mark.parametrize("answer", [{}, "oops", [1], [["acme/orders"]], 7, True, None])
def test_malformed_answers_release_no_namespace(answer: object, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        brokers = FakeBrokers()
        brokers.load("acme/orders")
        finder = Finder(brokers, "*/*")
        await finder.until(lambda found: "acme/orders" in found)
        paths = [("tenants",), ("brokers", "east")]
        paths += [("namespaces", "acme")] if answer is not None else []  # None means that there is no such tenant
        brokers.answers.update(dict.fromkeys(paths, answer))
        await asyncio.sleep(200)
        assert finder.changes == [{"acme/orders"}]
        assert {path for _, path in brokers.asked} >= set(paths)

    simulate(scenario)
    assert any("in an unknown form" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("answer", [{}, [], "<html>", 7, {"partitions": "?"}])
@pytest.mark.parametrize("pattern", ["acme/orders", "acme/*"])
def test_a_malformed_answer_does_not_make_a_namespace_count_as_one_with_a_log(answer: object, pattern: str) -> None:
    async def scenario() -> None:
        brokers = FakeBrokers("acme/orders", superuser=False)
        path = ("persistent", "acme", "orders", "__change_events", "partitions")
        brokers.answers[path] = answer
        finder = Finder(brokers, pattern)
        await asyncio.sleep(30)
        assert path in {asked for _, asked in brokers.asked}
        assert not finder.changes
        del brokers.answers[path]
        brokers.load("acme/orders")
        assert await finder.until(lambda found: "acme/orders" in found) <= 10.0

    simulate(scenario)


@pytest.mark.parametrize("answer", [[], "oops", None, 7])
def test_tenants_are_listed_if_brokers_report_their_loaded_namespaces_in_another_form(answer: object) -> None:
    async def scenario() -> None:
        brokers = FakeBrokers("acme/other")
        brokers.answers["brokers", "east", BROKER, "ownedNamespaces"] = answer
        finder = Finder(brokers, "acme/*")
        await asyncio.sleep(30)
        brokers.load("acme/new")
        assert await finder.until(lambda found: "acme/new" in found) <= 3 * SOON

    simulate(scenario)


def test_tenants_are_listed_soon_after_brokers_refuse_to_report_their_loaded_namespaces() -> None:
    async def scenario() -> None:
        brokers = FakeBrokers("acme/other")
        finder = Finder(brokers, "acme/*")
        await asyncio.sleep(100)
        brokers.errors["brokers",] = REFUSED
        await asyncio.sleep(3)
        brokers.load("acme/new")
        assert await finder.until(lambda found: "acme/new" in found) <= 3 * SOON
        since = asyncio.get_running_loop().time()
        await asyncio.sleep(300)
        assert brokers.questions(since)["loaded"] <= 300 / (0.8 * 60) + 1, "a refused request is made once a minute"

    simulate(scenario)


def test_tenants_are_listed_while_one_of_two_brokers_does_not_answer() -> None:
    async def scenario() -> None:
        brokers = FakeBrokers("acme/other")
        brokers.loaded["second:8080"] = set()
        finder = Finder(brokers, "acme/*")
        await asyncio.sleep(100)
        brokers.errors["brokers", "east", "second:8080"] = UNREACHABLE
        await asyncio.sleep(3)
        brokers.load("acme/new", broker="second:8080")
        assert await finder.until(lambda found: "acme/new" in found) <= 3 * SOON
        del brokers.loaded["second:8080"]
        brokers.namespaces.add("acme/late")
        await asyncio.sleep(30)
        since = asyncio.get_running_loop().time()
        await asyncio.sleep(120)
        assert brokers.questions(since)["namespaces"] <= 3, "the remaining broker reports all loaded namespaces"

    simulate(scenario)


def test_a_refusal_is_logged_once_with_its_meaning(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        Finder(FakeBrokers("acme/one", superuser=False), "acme/*")
        await asyncio.sleep(600)

    with caplog.at_level(logging.INFO, logger="topicpolicies_server.guard"):
        simulate(scenario)
    (record,) = caplog.records
    assert "only to superusers" in record.getMessage()
