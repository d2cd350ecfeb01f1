"""What the brokers' answers mean: which namespaces that match have a change log, and what to ask next.

A namespace matters once its change log exists. The log comes into being when a broker loads the namespace, because brokers connect to it
then. So there are two ways to learn of it:

- *What brokers have loaded*, one question for each broker, however many tenants and namespaces there are. Only a superuser may ask. As long
  as it is answered, everything else is asked **rarely**: that shows what is gone, and finds logs in namespaces that no broker has loaded.
- *What tenants have*, one question for each tenant that may match, and for each matching namespace without a log whether it has one by now.
  Each is asked again **soon**, as far as the pace allows (``pace``).

A pattern without a wildcard needs one question, whether its namespace has a log. None of these questions loads or creates anything.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..core.errors import PolicyError
from ..core.names import CHANGE_EVENTS
from ..core.reasons import LogState
from ..logs.change_log import LogError
from .agenda import About, Agenda, Question
from .patterns import Pattern

RARELY_SECONDS = 60.0
"""How often to ask what is also known in another way, or was refused."""
BROKERS_SECONDS = 10.0
"""How often to ask which brokers there are, and whether a namespace that a pattern names still has its log."""
AGAIN_SECONDS = 5.0
"""When to ask again what was not answered."""
_REST = 10.0
"""A question is not repeated before this many times as long as its answer took, or ``RARELY_SECONDS`` if that is less."""
_FEW = 8
"""Up to this many new namespaces of one list are asked about before all others; more would keep the others waiting for long."""
_JITTER = (0.8, 1.2)
_INTO_LOADED = frozenset({About.CLUSTER, About.BROKERS, About.LOADED})
_NONE: frozenset[str] = frozenset()


class Changes(NamedTuple):
    """Which namespaces are to be guarded from now on, and which no longer."""

    found: frozenset[str] = _NONE
    """The namespaces that are to be guarded from now on."""
    gone: frozenset[str] = _NONE
    """The namespaces that are not to be guarded any more."""


class Findings:
    """What is known of a cluster's namespaces, as far as they match. It does no I/O, and has no clock."""

    def __init__(self, patterns: Sequence[Pattern], agenda: Agenda, soon_seconds: float, chance: random.Random) -> None:
        """Puts the first questions on the agenda, all of them due at once.

        Args:
            patterns: which namespaces are wanted.
            agenda: the questions to ask.
            soon_seconds: how often to ask what can't be learned in another way.
            chance: spreads the questions, so that two guards don't ask at the same time.
        """
        self.found: set[str] = set()
        """The namespaces that match and have a change log."""
        self._agenda = agenda
        self._soon = soon_seconds
        self._chance = chance
        self._exact = frozenset(pattern.text for pattern in patterns if pattern.exact)
        self._searched = [pattern for pattern in patterns if not pattern.exact]
        self._known: dict[str, set[str]] = defaultdict(set)
        """By tenant, the known namespaces that match a pattern with wildcards."""
        self._listed = frozenset(pattern.tenant for pattern in self._searched if pattern.exact_tenant)
        """The tenants whose namespaces are asked for; before any answer, those that a pattern names."""
        self._read: set[str] = set()
        """The tenants whose list of namespaces has been read."""
        self._cluster = ""
        self._loaded: dict[str, frozenset[str] | None] = {}
        """By broker, the namespaces that it has loaded, whether they match or not; None: the broker has not answered."""
        for name in sorted(self._exact):
            agenda.put(Question(About.LOG, name), 0.0, urgent=True)
        for name in sorted(self._listed):
            agenda.put(Question(About.NAMESPACES, name), 0.0)
        if any(not pattern.exact_tenant for pattern in self._searched):
            agenda.put(Question(About.TENANTS), 0.0)
        if self._searched:
            agenda.put(Question(About.CLUSTER), 0.0, urgent=True)

    @property
    def knows_loaded(self) -> bool:
        """Whether all brokers answer which namespaces they have loaded."""
        return bool(self._loaded) and None not in self._loaded.values()

    def path(self, question: Question) -> tuple[str, ...]:
        """Returns the path of the admin API that answers a question."""
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

    def take(self, question: Question, answer: object, now: float, took: float) -> Changes:
        """Takes an answer; the question is put on the agenda again if there is more to learn.

        Args:
            question: the question, which was taken off the agenda.
            answer: the JSON; None for "not found".
            now: monotonic seconds.
            took: how many seconds the answer took. What takes long is asked less often.

        Raises:
            LogError: the answer can't be understood (``failed`` is to be called, as for every other error).
        """
        changes, pause = self._taken(question, answer, now)
        if pause is not None:
            self._again(question, now, max(pause, min(_REST * took, RARELY_SECONDS)))
        return changes

    def failed(self, question: Question, error: PolicyError, now: float) -> None:
        """Notes that a question was not answered; it is asked again later. What was found stays."""
        self._again(question, now, RARELY_SECONDS if error.state is LogState.ADMIN_REFUSED else AGAIN_SECONDS)
        if question.about not in _INTO_LOADED:
            return
        knew_loaded = self.knows_loaded
        if question.about is About.LOADED:
            self._loaded[question.name] = None
            self._agenda.put(Question(About.BROKERS), now + self._soon, urgent=True)  # the broker may be gone
        if knew_loaded and not self.knows_loaded:  # then everything else has to be asked soon again
            for other in [other for other in self._agenda if other.about not in _INTO_LOADED]:
                if not (other.about is About.LOG and other.name in self.found):
                    self._again(other, now, self._soon)

    def _taken(self, question: Question, answer: object, now: float) -> tuple[Changes, float | None]:
        """Returns what changed, and the pause before the same question; None: it need not be asked again."""
        match question.about:
            case About.TENANTS:
                return self._tenants(_names(question, answer), now), self._repeat_pause
            case About.NAMESPACES:
                return self._namespaces(question.name, _names(question, answer), now), self._repeat_pause
            case About.CLUSTER:
                self._cluster = _cluster_name(question, answer)
                self._agenda.put(Question(About.BROKERS), now, urgent=True)
                return Changes(), None
            case About.BROKERS:
                return self._brokers(question, _names(question, answer), now), BROKERS_SECONDS
            case About.LOADED:
                return self._has_loaded(question.name, _bundles(question, answer), now), self._soon
            case About.LOG:
                changes = self._has_log(question.name, _exists(question, answer))
                if question.name not in self.found:
                    return changes, self._repeat_pause
                return changes, BROKERS_SECONDS if question.name in self._exact else None  # other questions find out when others go

    @property
    def _repeat_pause(self) -> float:
        """The pause before a question is repeated: a long one if brokers answer anyway which namespaces they have loaded."""
        return max(RARELY_SECONDS, self._soon) if self.knows_loaded else self._soon

    def _again(self, question: Question, now: float, pause: float) -> None:
        urgent = question.about in _INTO_LOADED or question.name in self._exact
        self._agenda.put(question, now + pause * self._chance.uniform(*_JITTER), urgent=urgent)

    def _tenants(self, names: frozenset[str], now: float) -> Changes:
        named = frozenset(pattern.tenant for pattern in self._searched if pattern.exact_tenant)
        tenants = named | {name for name in names if any(pattern.matches_tenant(name) for pattern in self._searched)}
        for tenant in sorted(tenants - self._listed):
            self._agenda.put(Question(About.NAMESPACES, tenant), now)
        gone: set[str] = set()
        for tenant in self._listed.union(self._known) - tenants:
            self._agenda.drop(Question(About.NAMESPACES, tenant))
            self._read.discard(tenant)
            gone |= self._known.pop(tenant, set())
        self._listed = tenants
        return self._forget(gone)

    def _namespaces(self, tenant: str, names: frozenset[str], now: float) -> Changes:
        known = self._known[tenant]
        listed = {name for name in names if name in known or self._matches(name)}
        new = sorted(listed - known)
        for name in new:
            known.add(name)
            if name not in self.found and name not in self._exact:
                self._agenda.put(Question(About.LOG, name), now, urgent=tenant in self._read and len(new) <= _FEW)
        self._read.add(tenant)
        return self._forget(known - listed)

    def _brokers(self, question: Question, names: frozenset[str], now: float) -> Changes:
        if not names:
            raise _not_understood(question)  # the broker that answered must be among them
        for name in names - set(self._loaded):
            self._loaded[name] = None
            self._agenda.put(Question(About.LOADED, name), now, urgent=True)
        for name in set(self._loaded) - names:
            del self._loaded[name]
            self._agenda.drop(Question(About.LOADED, name))
        return Changes()

    def _has_loaded(self, broker: str, bundles: frozenset[str], now: float) -> Changes:
        loaded = frozenset(bundle.rpartition("/")[0] for bundle in bundles)
        found = set()
        before = self._loaded[broker] or _NONE
        for name in loaded - before:
            tenant, _, local = name.partition("/")
            if local not in self._loaded and self._matches(name):  # a broker's own namespace is called like the broker, and has no log
                self._known[tenant].add(name)
                if name not in self._exact:
                    self._agenda.drop(Question(About.LOG, name))
                found.add(name)
        self._loaded[broker] = loaded
        for name in (before - loaded) & self.found:  # another broker has it, or none, or it was deleted
            self._agenda.put(Question(About.LOG, name), now)
        return self._find(found)

    def _has_log(self, name: str, exists: bool) -> Changes:
        if exists:
            return self._find({name})
        if name in self.found:
            self.found.discard(name)
            return Changes(gone=frozenset({name}))
        return Changes()

    def _find(self, names: set[str]) -> Changes:
        found = frozenset(names - self.found)
        self.found |= found
        return Changes(found=found)

    def _forget(self, names: set[str]) -> Changes:
        """Forgets namespaces of patterns with wildcards that are gone. One that a broker has loaded comes back with its next answer."""
        for name in names:
            known = self._known[name.partition("/")[0]]
            known.discard(name)
            if not known:
                del self._known[name.partition("/")[0]]
            if name not in self._exact:
                self._agenda.drop(Question(About.LOG, name))
        if names:
            self._loaded = {broker: loaded and loaded - names for broker, loaded in self._loaded.items()}
        gone = frozenset((names - self._exact) & self.found)
        self.found -= gone
        return Changes(gone=gone)

    def _matches(self, name: str) -> bool:
        """Returns whether a namespace matches a pattern with wildcards."""
        return any(pattern.matches(name) for pattern in self._searched)


def _names(question: Question, answer: object) -> frozenset[str]:
    """Returns the names in a list; a tenant that was not found has none."""
    if answer is None and question.about is About.NAMESPACES:
        return _NONE
    if not isinstance(answer, list) or not all(isinstance(name, str) for name in answer):
        raise _not_understood(question)
    return frozenset(answer)


def _bundles(question: Question, answer: object) -> frozenset[str]:
    """Returns ``tenant/namespace/range`` of each bundle that a broker has."""
    if not isinstance(answer, Mapping):
        raise _not_understood(question)
    return frozenset(name for name in answer if name.count("/") == 2)  # old names have the cluster too


def _exists(question: Question, answer: object) -> bool:
    """Returns whether a topic exists: the answer is then its number of partitions."""
    if answer is None:
        return False
    if not isinstance(answer, Mapping) or not isinstance(answer.get("partitions"), int):
        raise _not_understood(question)
    return True


def _cluster_name(question: Question, answer: object) -> str:
    name = answer.get("clusterName") if isinstance(answer, Mapping) else None
    if not isinstance(name, str) or not name:
        raise _not_understood(question)
    return name


def _not_understood(question: Question) -> LogError:
    asked = f"{question.about.value} {question.name}".strip()
    return LogError(LogState.ADMIN_UNREACHABLE, f"The brokers' answer to the request for {asked} can't be understood.")
