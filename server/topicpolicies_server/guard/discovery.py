"""Finds the namespaces that a guard is to keep loaded: asks brokers which of those that match its patterns have a change log.

A namespace matters once its change log exists. The log comes into being when a broker loads the namespace, because brokers connect to it
then; Pulsar has no event for that, so the guard has to ask. There are two ways to learn of it:

- *What brokers have loaded*, one question for each broker, however many tenants and namespaces there are. Only a superuser may ask. As long
  as it is answered, everything else is asked rarely: that shows what is gone, and finds logs in namespaces that no broker has loaded.
- *What tenants have*, one question for each tenant that may match, and for each matching namespace without a log whether it has one by now.

A pattern without a wildcard needs one question, whether its namespace has a log. None of these questions loads or creates anything.

Brokers are asked one question at a time, a limited number in a second, and for no more than a quarter of the time while answers take less
than 1.7 s.
"""

from __future__ import annotations

import asyncio
import enum
import heapq
import logging
import random
import re
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Iterable, Mapping
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeVar

from ..config import Limits
from ..core.errors import PolicyError
from ..core.names import CHANGE_EVENTS
from ..core.reasons import LogState
from ..logs.change_log import LogError

if TYPE_CHECKING:
    from ..logs.pulsar.admin import Admin

_LOG = logging.getLogger(__name__)
_TRYING_SECONDS = 5.0
"""How long a question is repeated while brokers do not answer."""
_ANSWER_SECONDS = 30.0
"""After this time a question counts as unanswered, even if part of the answer has come."""
_TELL_SECONDS = 60.0
"""How often to log that there are no answers."""
_RARELY_SECONDS = 60.0
"""How often to ask what is also known in another way, or was refused."""
_BROKERS_SECONDS = 10.0
"""How often to ask which brokers there are, and whether a namespace that a pattern names still has its log."""
_AGAIN_SECONDS = 5.0
"""When to ask again what was not answered."""
_REPEAT_FACTOR = 10.0
"""A question is not repeated before this many times as long as its answer took, or ``_RARELY_SECONDS`` if that is less."""
_REST_FACTOR, _LONGEST_REST_SECONDS = 3.0, 5.0
"""After an answer the guard asks nothing for this many times as long as it took, and no longer than that."""
_JITTER = (0.8, 1.2)
_NONE: frozenset[str] = frozenset()


class About(enum.Enum):
    """What a question to brokers is about."""

    TENANTS = "tenants"
    """Which tenants there are."""
    NAMESPACES = "namespaces"
    """Which namespaces a tenant has."""
    CLUSTER = "cluster"
    """The name of the brokers' cluster."""
    BROKERS = "brokers"
    """Which brokers a cluster has."""
    LOADED = "loaded"
    """Which namespaces a broker has loaded."""
    LOG = "log"
    """Whether a namespace has a change log."""


_INTO_LOADED = frozenset({About.CLUSTER, About.BROKERS, About.LOADED})


class Question(NamedTuple):
    """A question to the brokers."""

    about: About
    name: str = ""
    """The name of the tenant, the broker or the namespace."""


class Changes(NamedTuple):
    """Which namespaces are to be guarded from now on, and which no longer."""

    found: frozenset[str] = _NONE
    """The namespaces that are to be guarded from now on."""
    gone: frozenset[str] = _NONE
    """The namespaces that are not to be guarded any more."""


class Questions:
    """The questions that are to be asked, each with the time when it is due, in monotonic seconds.

    The one that has been due for the longest time comes first; urgent ones and others take turns.
    """

    def __init__(self) -> None:
        self._current: dict[Question, int] = {}
        """The number of each question's valid entry; other entries of it are outdated."""
        self._urgent: list[tuple[float, int, Question]] = []
        self._others: list[tuple[float, int, Question]] = []
        self._turns = [self._urgent, self._others]
        """Both heaps, first the one whose turn it is."""
        self._numbers = count()

    def put(self, question: Question, due: float, *, urgent: bool = False) -> None:
        """Schedules a question; one that is scheduled already gets the new time instead."""
        number = self._current[question] = next(self._numbers)
        heapq.heappush(self._urgent if urgent else self._others, (due, number, question))

    def drop(self, question: Question) -> None:
        """Removes a question."""
        self._current.pop(question, None)

    def scheduled(self) -> list[Question]:
        """Returns the questions that are scheduled."""
        return list(self._current)

    def take(self, now: float) -> Question | None:
        """Removes and returns a question that is due; None if none is."""
        for heap in self._turns:
            due, question = self._first(heap)
            if question is not None and due <= now:
                heapq.heappop(heap)
                del self._current[question]
                self._turns = [self._others, self._urgent] if heap is self._urgent else [self._urgent, self._others]
                return question
        return None

    def next_due(self) -> float:
        """Returns when the next question is due; infinity if there is none."""
        return min(self._first(heap)[0] for heap in self._turns)

    def _first(self, heap: list[tuple[float, int, Question]]) -> tuple[float, Question | None]:
        while heap and self._current.get(heap[0][2]) != heap[0][1]:
            heapq.heappop(heap)
        return (heap[0][0], heap[0][2]) if heap else (float("inf"), None)


class Discovery:
    """Finds the namespaces of a cluster that match and have a change log. It belongs to the event loop that it is used on."""

    def __init__(
        self, admin: Admin, patterns: tuple[str, ...], *, refresh_seconds: float, per_second: float, chance: random.Random | None = None
    ) -> None:
        """Asks nothing yet.

        ``patterns``: which namespaces are wanted: ``tenant/namespace``, in which ``*`` stands for any characters but the slash.
        ``refresh_seconds``: how often to ask what can't be learned in another way. ``per_second``: the most questions in a second, whatever
        they are about.
        """
        self.asked: Counter[str] = Counter()
        """How many questions were asked, by what they were about."""
        self._admin = admin
        self._soon = refresh_seconds
        self._least_seconds = 1.0 / per_second
        self._chance = chance or random.Random()
        self._questions = Questions()
        self._found: set[str] = set()
        """The namespaces that match and have a change log."""
        self._yielded = _NONE
        """The same when changes were last yielded."""
        self._exact = frozenset(text for text in patterns if "*" not in text)
        searched = [text for text in patterns if "*" in text]
        self._matching = _any_of(searched)
        """Matches the namespaces that match a pattern with wildcards."""
        self._tenants_matching = _any_of(text.partition("/")[0] for text in searched)
        self._named = frozenset(tenant for tenant, _, _ in (text.partition("/") for text in searched) if "*" not in tenant)
        """The tenants that a pattern with a wildcard names."""
        self._listed = self._named
        """The tenants whose namespaces are asked for."""
        self._known: dict[str, set[str]] = defaultdict(set)
        """By tenant, the known namespaces that match a pattern with wildcards."""
        self._cluster = ""
        self._loaded: dict[str, frozenset[str] | None] = {}
        """By broker, the namespaces that it has loaded, whether they match or not; None: the broker has not answered."""
        self._told_at = float("-inf")
        self._refusal_told = False
        for name in sorted(self._exact):
            self._questions.put(Question(About.LOG, name), 0.0, urgent=True)
        for name in sorted(self._listed):
            self._questions.put(Question(About.NAMESPACES, name), 0.0)
        if any("*" in text.partition("/")[0] for text in searched):
            self._questions.put(Question(About.TENANTS), 0.0)
        if searched:
            self._questions.put(Question(About.CLUSTER), 0.0, urgent=True)

    async def changes(self) -> AsyncGenerator[Changes, None]:
        """Yields what changed, forever. It may be called again, also after an error, and goes on from there."""
        now = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(min(max(self._questions.next_due() - now(), 0.0), _TELL_SECONDS))
            question = self._questions.take(now())
            if question is None:
                continue
            began = now()
            await self._ask(question)
            if self._found != self._yielded:
                before, self._yielded = self._yielded, frozenset(self._found)
                yield Changes(self._yielded - before, before - self._yielded)
            took = now() - began
            await asyncio.sleep(max(self._least_seconds - took, min(_REST_FACTOR * took, _LONGEST_REST_SECONDS)))

    async def _ask(self, question: Question) -> None:
        """Asks one question, and schedules it again if there is more to learn, also after an error."""
        now = asyncio.get_running_loop().time
        began = now()
        self.asked[question.about.value] += 1
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                answer = await self._admin.get(*self._path(question), seconds=_TRYING_SECONDS)
            pause = self._take(question, answer, now())
        except TimeoutError:
            sentence = f"Brokers have not answered within {_ANSWER_SECONDS:.0f} s."
            self._failed(question, LogError(LogState.ADMIN_UNREACHABLE, sentence), now())
        except PolicyError as error:
            self._failed(question, error, now())
        except BaseException:
            self._again(question, now(), _AGAIN_SECONDS)
            raise
        else:
            if pause is not None:
                self._again(question, now(), max(pause, min(_REPEAT_FACTOR * (now() - began), _RARELY_SECONDS)))

    def _path(self, question: Question) -> tuple[str, ...]:
        match question.about:
            case About.TENANTS:
                return ("tenants",)
            case About.NAMESPACES:
                return ("namespaces", question.name)
            case About.CLUSTER:
                return ("brokers", "configuration", "runtime")
            case About.BROKERS:
                return ("brokers", self._cluster)
            case About.LOADED:
                return ("brokers", self._cluster, question.name, "ownedNamespaces")
            case About.LOG:
                return ("persistent", *question.name.split("/"), CHANGE_EVENTS, "partitions")

    def _again(self, question: Question, now: float, pause: float) -> None:
        urgent = question.about in _INTO_LOADED or question.name in self._exact
        self._questions.put(question, now + pause * self._chance.uniform(*_JITTER), urgent=urgent)

    def _failed(self, question: Question, error: PolicyError, now: float) -> None:
        """Notes that a question was not answered; it is asked again later. What was found stays."""
        refused, into_loaded = error.state is LogState.ADMIN_REFUSED, question.about in _INTO_LOADED
        self._again(question, now, _RARELY_SECONDS if refused else _AGAIN_SECONDS)
        knew_loaded = self._knows_loaded
        if question.about is About.LOADED:
            self._loaded[question.name] = None
            self._questions.put(Question(About.BROKERS), now + self._soon, urgent=True)  # the broker may be gone
        if knew_loaded and not self._knows_loaded:  # then everything else has to be asked soon again
            for other in self._questions.scheduled():
                if other.about not in _INTO_LOADED and not (other.about is About.LOG and other.name in self._found):
                    self._again(other, now, self._soon)
        if refused and into_loaded:
            if not self._refusal_told:
                self._refusal_told = True
                sentence = "Brokers show what they have loaded only to superusers, so the guard lists the namespaces of tenants instead: %s"
                _LOG.info(sentence, error.message)
        elif now - self._told_at >= _TELL_SECONDS:
            self._told_at = now
            _LOG.warning("the namespaces to guard can't be listed, so the present %d stay: %s", len(self._found), error.message)

    # --- what answers mean ------------------------------------------------------------------------------------------

    @property
    def _knows_loaded(self) -> bool:
        """Whether all brokers answer which namespaces they have loaded."""
        return bool(self._loaded) and None not in self._loaded.values()

    def _take(self, question: Question, answer: object, now: float) -> float | None:
        """Takes an answer, as its JSON; None for "not found". Returns the pause before the same question; None: it is not repeated.

        Raises:
            LogError: the answer can't be understood.
        """
        name = question.name
        match question.about:
            case About.TENANTS:
                self._take_tenants(_names(question, answer), now)
            case About.NAMESPACES:
                self._take_namespaces(name, _names(question, [] if answer is None else answer), now)
            case About.CLUSTER:
                self._cluster = _field(question, answer, "clusterName", str) or _not_understood(question)
                self._questions.put(Question(About.BROKERS), now, urgent=True)
                return None
            case About.BROKERS:
                self._take_brokers(_names(question, answer) or _not_understood(question), now)  # the broker that answered is among them
                return _BROKERS_SECONDS
            case About.LOADED:
                if not isinstance(answer, Mapping):
                    _not_understood(question)
                self._take_loaded(name, frozenset(bundle.rpartition("/")[0] for bundle in answer), now)
                return self._soon
            case About.LOG:
                if answer is not None:
                    _field(question, answer, "partitions", int)
                    self._found.add(name)
                    return _BROKERS_SECONDS if name in self._exact else None  # other questions find out when others go
                self._found.discard(name)
        return max(_RARELY_SECONDS, self._soon) if self._knows_loaded else self._soon

    def _take_tenants(self, names: frozenset[str], now: float) -> None:
        tenants = self._named | {name for name in names if self._tenants_matching.fullmatch(name)}
        for tenant in sorted(tenants - self._listed):
            self._questions.put(Question(About.NAMESPACES, tenant), now)
        for tenant in self._listed.union(self._known) - tenants:
            self._questions.drop(Question(About.NAMESPACES, tenant))
            self._forget(self._known.pop(tenant, set()))
        self._listed = tenants

    def _take_namespaces(self, tenant: str, names: frozenset[str], now: float) -> None:
        known = self._known.pop(tenant, set())
        listed = {name for name in names if name in known or self._matching.fullmatch(name)}
        for name in sorted(listed - known - self._found - self._exact):
            self._questions.put(Question(About.LOG, name), now)
        if listed:
            self._known[tenant] = listed
        self._forget(known - listed)

    def _take_brokers(self, names: frozenset[str], now: float) -> None:
        for name in names - set(self._loaded):
            self._loaded[name] = None
            self._questions.put(Question(About.LOADED, name), now, urgent=True)
        for name in set(self._loaded) - names:
            del self._loaded[name]
            self._questions.drop(Question(About.LOADED, name))

    def _take_loaded(self, broker: str, loaded: frozenset[str], now: float) -> None:
        before = self._loaded[broker] or _NONE
        self._loaded[broker] = loaded
        for name in loaded - before:
            tenant, _, local = name.partition("/")
            if local not in self._loaded and self._matching.fullmatch(name):  # a broker's own namespace is called like the broker
                self._known[tenant].add(name)
                if name not in self._exact:
                    self._questions.drop(Question(About.LOG, name))
                self._found.add(name)
        for name in (before - loaded) & self._found:  # another broker has it, or none, or it was deleted
            self._questions.put(Question(About.LOG, name), now)

    def _forget(self, names: set[str]) -> None:
        """Forgets namespaces of patterns with wildcards that are gone. One that a broker has loaded comes back with its next answer."""
        if names:
            self._loaded = {broker: loaded and loaded - names for broker, loaded in self._loaded.items()}
        for name in names - self._exact:
            self._questions.drop(Question(About.LOG, name))
        self._found -= names - self._exact


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join("[^/]*".join(map(re.escape, text.split("*"))) for text in patterns) or "(?!)")


def _names(question: Question, answer: object) -> frozenset[str]:
    if not isinstance(answer, list) or not all(isinstance(name, str) for name in answer):
        _not_understood(question)
    return frozenset(answer)


_T = TypeVar("_T")


def _field(question: Question, answer: object, name: str, kind: type[_T]) -> _T:
    found = answer.get(name) if isinstance(answer, Mapping) else None
    return found if isinstance(found, kind) else _not_understood(question)


def _not_understood(question: Question) -> NoReturn:
    asked = f"{question.about.value} {question.name}".strip()
    raise LogError(LogState.ADMIN_UNREACHABLE, f"The brokers' answer to the request for {asked} can't be understood.")


def discovery(admin: Admin, patterns: tuple[str, ...], limits: Limits) -> Discovery:
    """Makes the discovery of namespaces within a server's limits."""
    return Discovery(admin, patterns, refresh_seconds=limits.guard_refresh_seconds, per_second=limits.max_guard_questions_per_second)
