"""How a guard finds namespaces: what it asks brokers, how often, and how soon it knows. The time is simulated."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable

import pytest

from tests.simulation.loop import SimulatedLoop
from topicpolicies_server.guard.agenda import About, Agenda, Question
from topicpolicies_server.guard.discovery import Discovery
from topicpolicies_server.guard.pace import Pace

from .fake_brokers import BROKER, REFUSED, UNREACHABLE, FakeBrokers

SOON = 1.0
PER_SECOND = 20.0


class Finder:
    """A discovery, and what it told."""

    def __init__(self, brokers: FakeBrokers, *patterns: str, per_second: float = PER_SECOND) -> None:
        self.found: set[str] = set()
        self.told: list[tuple[float, frozenset[str], frozenset[str]]] = []
        self.failures: list[BaseException] = []
        self._changed = asyncio.Event()
        self.discovery = Discovery(brokers, patterns, refresh_seconds=SOON, per_second=per_second, chance=random.Random(1))
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def _follow(self) -> None:
        while True:
            try:
                async with contextlib.aclosing(self.discovery.changes()) as told:
                    async for changes in told:
                        assert changes.found.isdisjoint(self.found) and changes.gone <= self.found
                        self.found = (self.found | changes.found) - changes.gone
                        self._changed.set()
                        self.told.append((asyncio.get_running_loop().time(), changes.found, changes.gone))
            except RuntimeError as error:
                self.failures.append(error)

    async def until(self, condition: Callable[[set[str]], bool], seconds: float = 600.0) -> float:
        """How long it takes until something holds of what was found."""
        began = asyncio.get_running_loop().time()
        async with asyncio.timeout(seconds):
            while not condition(self.found):
                self._changed.clear()
                await self._changed.wait()
        return asyncio.get_running_loop().time() - began

    async def interrupt(self) -> None:
        """Ends it in the middle of whatever it does, and begins again."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = asyncio.get_running_loop().create_task(self._follow())


def simulate(scenario: Callable[[], Awaitable[None]]) -> None:
    loop = SimulatedLoop(random.Random(1))
    loop.run(_run(scenario))
    assert loop.failures == []


async def _run(scenario: Callable[[], Awaitable[None]]) -> None:
    await scenario()


def cluster(tenants: int, each: int = 1, *, superuser: bool = True) -> FakeBrokers:
    """Namespaces that nobody has loaded."""
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
def test_what_matches_and_has_a_log_is_found(patterns: tuple[str, ...], found: set[str], superuser: bool) -> None:
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
        assert sum(finder.discovery.asked.values()) == len(brokers.asked)

    simulate(scenario)


@pytest.mark.slow
def test_what_is_loaded_already_is_found_at_once_however_much_there_is() -> None:
    async def scenario() -> None:
        brokers = cluster(300, 10)
        brokers.load(*(f"tenant-{tenant}/{number}" for tenant in range(300) for number in range(5)))
        finder = Finder(brokers, "*/*")
        assert await finder.until(lambda found: len(found) == 1_500) <= 1.0
        await asyncio.sleep(200)
        assert brokers.busiest_second() <= PER_SECOND and brokers.most_at_once == 1
        assert len(finder.found) == 1_500 and brokers.questions()["log"] >= 1_500, "the others were asked about too"

    simulate(scenario)


def test_a_tenant_administrator_learns_of_a_log_as_fast_as_the_pace_allows() -> None:
    async def scenario() -> None:
        brokers = FakeBrokers(*(f"acme/{number}" for number in range(200)), superuser=False)
        finder = Finder(brokers, "acme/*")
        await asyncio.sleep(60)
        since = asyncio.get_running_loop().time()
        brokers.load("acme/77")
        assert await finder.until(lambda found: "acme/77" in found) <= 2.5 * 200 / PER_SECOND
        brokers.load("acme/new")  # what was never asked about goes first
        assert await finder.until(lambda found: "acme/new" in found) <= 2.5 * 200 / PER_SECOND
        assert brokers.busiest_second() <= PER_SECOND
        assert brokers.questions(since)["log"] > 0

    simulate(scenario)


def test_ten_thousand_namespaces_that_nobody_has_loaded_cost_no_more_than_the_pace_and_delay_nothing() -> None:
    async def scenario() -> None:
        brokers = FakeBrokers(*(f"acme/{number}" for number in range(10_000)))
        finder = Finder(brokers, "acme/*")
        await asyncio.sleep(30)
        brokers.load("acme/123")
        assert await finder.until(lambda found: "acme/123" in found) <= 3 * SOON
        brokers.load("acme/new")
        assert await finder.until(lambda found: "acme/new" in found) <= 3 * SOON
        assert brokers.busiest_second() <= PER_SECOND

    simulate(scenario)


def test_slow_answers_are_asked_for_less() -> None:
    async def scenario() -> None:
        brokers = cluster(100)
        brokers.answer_seconds = 0.5
        Finder(brokers, "*/*")
        await asyncio.sleep(400)
        assert 0.4 * 400 / 2 <= len(brokers.asked) <= 400 / 2, "a quarter of the time"

    simulate(scenario)


def test_a_tenant_whose_list_takes_long_is_listed_less_often() -> None:
    async def scenario() -> None:
        brokers = FakeBrokers("acme/one", superuser=False, answer_seconds=0.3)
        Finder(brokers, "acme/*")
        await asyncio.sleep(300)
        assert brokers.questions()["namespaces"] <= 300 / (0.8 * 10 * 0.3)

    simulate(scenario)


@pytest.mark.parametrize("superuser", [True, False])
@pytest.mark.parametrize("pattern", ["acme/orders", "acme/*", "*/*"])
def test_a_namespace_that_is_deleted_is_let_go_and_found_again_when_it_is_created_anew(pattern: str, superuser: bool) -> None:
    if pattern == "*/*" and not superuser:
        return  # only superusers may list tenants

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


def test_a_namespace_that_goes_to_another_broker_or_to_none_stays() -> None:
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
        assert finder.found == {"acme/orders"} and len(finder.told) == 1

    simulate(scenario)


def test_a_list_that_is_older_than_what_brokers_have_loaded_takes_nothing_away_for_long() -> None:
    async def scenario() -> None:
        brokers = FakeBrokers("acme/other")
        brokers.load("acme/orders")
        brokers.answers["namespaces", "acme"] = ["acme/other"]  # from a cache that does not know of it yet
        finder = Finder(brokers, "acme/*")
        await asyncio.sleep(100)
        assert any(gone for _, _, gone in finder.told), "the list was believed"
        brokers.answers.clear()
        assert await finder.until(lambda found: "acme/orders" in found) <= 3 * SOON

    simulate(scenario)


def test_a_tenant_that_is_deleted_takes_its_namespaces_along() -> None:
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
def test_while_brokers_do_not_answer_what_is_found_stays_and_they_are_asked_seldom(pattern: str, caplog: pytest.LogCaptureFixture) -> None:
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
        assert brokers.questions(since).total() <= 600 / 9, "each of them is repeated for five seconds already"
        brokers.errors.clear()
        brokers.answer_seconds = 0.003
        brokers.load("acme/new")
        if pattern != "acme/orders":
            assert await finder.until(lambda found: "acme/new" in found) <= 20.0

    simulate(scenario)
    told = [record for record in caplog.records if "namespaces to guard can't be listed, so the present 1 stay" in record.getMessage()]
    assert 9 <= len(told) <= 11, "once a minute"


@pytest.mark.parametrize("answer", [{}, "oops", [1], [["acme/orders"]], 7, True, None])
def test_answers_that_can_not_be_understood_take_nothing_away(answer: object, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        brokers = FakeBrokers()
        brokers.load("acme/orders")
        finder = Finder(brokers, "*/*")
        await finder.until(lambda found: "acme/orders" in found)
        paths = [("tenants",), ("brokers", "east")]
        paths += [("namespaces", "acme")] if answer is not None else []  # then there is no such tenant
        brokers.answers.update(dict.fromkeys(paths, answer))
        await asyncio.sleep(200)
        assert finder.found == {"acme/orders"} and len(finder.told) == 1
        assert {path for _, path in brokers.asked} >= set(paths)

    simulate(scenario)
    assert any("can't be understood" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("answer", [{}, [], "<html>", 7, {"partitions": "?"}])
@pytest.mark.parametrize("pattern", ["acme/orders", "acme/*"])
def test_a_namespace_is_not_taken_for_one_with_a_log_because_of_an_answer_that_nobody_understands(answer: object, pattern: str) -> None:
    async def scenario() -> None:
        brokers = FakeBrokers("acme/orders", superuser=False)
        path = ("persistent", "acme", "orders", "__change_events", "partitions")
        brokers.answers[path] = answer
        finder = Finder(brokers, pattern)
        await asyncio.sleep(30)
        assert path in {asked for _, asked in brokers.asked}
        assert not finder.told
        del brokers.answers[path]
        brokers.load("acme/orders")
        assert await finder.until(lambda found: "acme/orders" in found) <= 10.0

    simulate(scenario)


@pytest.mark.parametrize("answer", [[], "oops", None, 7])
def test_what_brokers_have_loaded_and_tell_in_another_way_is_asked_of_tenants(answer: object) -> None:
    async def scenario() -> None:
        brokers = FakeBrokers("acme/other")
        brokers.answers["brokers", "east", BROKER, "ownedNamespaces"] = answer
        finder = Finder(brokers, "acme/*")
        await asyncio.sleep(30)
        brokers.load("acme/new")
        assert await finder.until(lambda found: "acme/new" in found) <= 3 * SOON

    simulate(scenario)


def test_when_brokers_stop_telling_what_they_have_loaded_tenants_are_asked_soon_again() -> None:
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
        assert brokers.questions(since)["loaded"] <= 300 / (0.8 * 60) + 1, "what is refused is asked for once a minute"

    simulate(scenario)


def test_one_of_two_brokers_that_does_not_answer_has_tenants_asked_in_its_place() -> None:
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
        assert brokers.questions(since)["namespaces"] <= 3, "the broker that is left tells all"

    simulate(scenario)


def test_a_question_that_is_never_answered_is_given_up() -> None:
    async def scenario() -> None:
        brokers = FakeBrokers()
        brokers.load("acme/orders")
        brokers.answer_seconds = 1e9
        finder = Finder(brokers, "acme/*")
        await asyncio.sleep(1)
        brokers.answer_seconds = 0.003
        assert await finder.until(lambda found: "acme/orders" in found) <= 40.0

    simulate(scenario)


def test_neither_an_unforeseen_error_nor_a_cancellation_loses_a_question() -> None:
    async def scenario() -> None:
        brokers = cluster(3)
        finder = Finder(brokers, "*/*")
        await asyncio.sleep(20)
        brokers.errors[()] = RuntimeError("nobody thought of it")
        await asyncio.sleep(60)
        assert len(finder.failures) > 3
        brokers.errors.clear()
        brokers.answer_seconds = 0.5
        for _ in range(20):
            await finder.interrupt()
            await asyncio.sleep(0.3)
        brokers.answer_seconds = 0.003
        brokers.load("acme/new")
        assert await finder.until(lambda found: "acme/new" in found) <= 20.0
        await asyncio.sleep(200)
        since = asyncio.get_running_loop().time()
        await asyncio.sleep(100)
        assert set(brokers.questions(since)) >= {"tenants", "namespaces", "brokers", "loaded"}

    simulate(scenario)


def test_a_refusal_is_told_once_with_what_it_means(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        Finder(FakeBrokers("acme/one", superuser=False), "acme/*")
        await asyncio.sleep(600)

    with caplog.at_level(logging.INFO, logger="topicpolicies_server.guard"):
        simulate(scenario)
    (record,) = caplog.records
    assert "only to superusers" in record.getMessage()


# --- what it is made of ---------------------------------------------------------------------------------------------


def question(name: str) -> Question:
    return Question(About.LOG, name)


def test_an_agenda_gives_what_is_due_longest_and_takes_urgent_questions_and_others_in_turns() -> None:
    agenda = Agenda()
    for number in range(4):
        agenda.put(question(f"urgent-{number}"), float(number), urgent=True)
        agenda.put(question(f"other-{number}"), float(number))
    taken = [agenda.take(10.0) for _ in range(9)]
    names = [each.name for each in taken if each is not None]
    assert taken[-1] is None and len(agenda) == 0 and agenda.next_due() is None
    assert names == [f"{kind}-{number}" for number in range(4) for kind in ("urgent", "other")]


def test_an_agenda_gives_nothing_before_its_time_and_nothing_that_was_dropped_and_a_new_time_replaces_the_old_one() -> None:
    agenda = Agenda()
    agenda.put(question("a"), 5.0)
    agenda.put(question("b"), 1.0, urgent=True)
    agenda.put(question("c"), 1.0)
    agenda.drop(question("c"))
    agenda.drop(question("c"))
    assert agenda.take(0.9) is None and agenda.next_due() == 1.0
    agenda.put(question("b"), 7.0)
    agenda.put(question("a"), 2.0, urgent=True)
    assert agenda.next_due() == 2.0 and question("b") in agenda and set(agenda) == {question("a"), question("b")}
    assert [agenda.take(10.0), agenda.take(10.0), agenda.take(10.0)] == [question("a"), question("b"), None]


def test_an_agenda_stays_as_small_as_what_is_on_it() -> None:
    agenda = Agenda()
    for number in range(100_000):
        agenda.put(question("a"), 1e9 - number, urgent=bool(number % 3))
    assert len(agenda) == 1 and len(agenda._urgent) + len(agenda._others) < 200


@pytest.mark.parametrize(("took", "pause"), [(0.0, 0.05), (0.01, 0.04), (0.0125, 0.0375), (0.1, 0.3), (1.0, 3.0), (30.0, 5.0)])
def test_the_pace_is_so_many_in_a_second_and_a_quarter_of_the_time(took: float, pause: float) -> None:
    assert Pace(20.0).pause(took) == pytest.approx(pause)
