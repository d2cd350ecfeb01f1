"""Drift: documents that are not as the declared policies of a server say. It is found, reported, and put back if that is asked for.

docs/declared-policies.md describes it.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from topicpolicies import InvalidArgument, PolicyDocument
from topicpolicies.names import namespace_of

from ..cluster.cluster import Cluster
from ..core.chains.request import Request
from ..core.changes.change import compile_change
from ..core.changes.constraints import Constraint
from ..core.errors import PolicyError
from ..core.fold.operation import Status
from ..core.names import PolicyKey, Scope, parse_topic
from ..core.policies import secrets
from ..core.policies.events import ABSENT, Position
from ..core.reading.cell import Head
from ..files import Reloader
from ..history.entries import OUTCOMES
from ..history.file import Query
from ..logs.change_log import NotLeader
from ..namespaces.activity import writer_in_words
from ..namespaces.namespace import Namespace
from ..namespaces.registry import Registry
from ..tasks import RestartedTask
from .files import Declared, by_owner, constraints_of
from .rendering import UNSET, between, policies_of, printable_path
from .steps import Step, owned_by_others, steps

LOOK_SECONDS = 5.0
"""How often documents are compared."""
_PAUSE_SECONDS = 0.1
"""Between two updates that put something back: at most ten in a second, so that other callers are not held up."""
_MOST_A_ROUND = 50
"""Updates between two looks."""
_TOPICS_SECONDS = 15.0
"""How often the cluster is asked for the topics of a namespace, which takes brokers a while if there are many."""
_PAGE = 1_000
_PAGE_BYTES = 1 << 20
_SCOPES = frozenset(Scope)
_LOG = logging.getLogger(__name__)


class Drift:
    """Compares the documents of a server with declared policies, again and again."""

    def __init__(self, registry: Registry, cluster: Cluster | None, path: Path, declared: Sequence[Declared], *, enforce: bool) -> None:
        """Compares nothing yet. ``declared``: what each owner declares in the files of ``path``; ``enforce``: whether drift is put back."""
        self._registry = registry
        self._cluster = cluster
        self._path = path
        self._declared = self._read = declared
        """What is compared, and what was read last, which may be newer."""
        self._enforce = enforce
        self._topics: dict[str, tuple[float, frozenset[str]]] = {}
        """By namespace: when the cluster was asked for its topics, in seconds of the loop's clock, and what it answered."""
        self._seen: dict[tuple[int, str], dict[PolicyKey, Position]] = {}
        """By the number of the owner's declarations and the namespace: the versions that were compared last."""
        self._drifted: dict[tuple[int, PolicyKey], Step] = {}
        """What makes documents as declared, of those that are not."""
        self._claimed: set[tuple[PolicyKey, str, str]] = set()
        """The paths of documents that were left to another owner, with that owner: each is logged once."""
        self._held: dict[str, Namespace] = {}
        self.outcomes: Counter[str] = Counter({"applied": 0, "failed": 0})
        """How many documents were put back, and how many could not be."""
        self._task = RestartedTask("looking for drift", self._run, pause_seconds=LOOK_SECONDS)

    def by_namespace(self) -> Mapping[str, int]:
        """Returns how many documents of each namespace are not as declared. Any thread may call this."""
        return dict.fromkeys(list(self._held), 0) | Counter(namespace_of(key.topic) for _, key in list(self._drifted))

    def constraints_of(self, topic: str) -> list[Constraint]:
        """Returns what changes of a topic may make of it."""
        return constraints_of(topic, self._read)

    def start(self, reloader: Reloader) -> None:
        """Begins to compare. ``reloader``: has the files read again when they change."""
        reloader.add("declared policies", (self._path,), lambda: _read(self._path), self._take, self._declared)
        self._task.start()

    def _take(self, declared: Sequence[Declared]) -> None:
        self._read = declared

    def _adopt(self) -> None:
        """Compares with what was read last from now on."""
        if self._read is self._declared:
            return
        self._declared = self._read
        self._seen.clear()
        self._drifted.clear()
        for name in self._held.keys() - {name for each in self._declared for name in _namespaces(each)}:
            self._held.pop(name).release(self)

    async def stop(self) -> None:
        """Ends all comparing."""
        await self._task.stop()
        for namespace in self._held.values():
            namespace.release(self)

    async def _run(self) -> None:
        while True:
            self._adopt()
            for number, declared in enumerate(self._declared):
                for name in _namespaces(declared):
                    try:
                        await self._look(number, declared, name)
                    except PolicyError as error:
                        self._seen.pop((number, name), None)
                        _LOG.warning("%s can't be compared with what is declared: %s", name, error.message)
            if self._enforce:
                await self._put_back()
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self, number: int, declared: Declared, name: str) -> None:
        """Compares the documents of a namespace that have changed since the last look."""
        if name not in self._held:
            self._held[name] = namespace = self._registry.get(name)
            namespace.hold(self)
        seen = self._seen.get((number, name), {})
        self._seen[number, name] = now = {}
        async for head in _heads(self._held[name]):
            now[head.key] = head.version
            if seen.get(head.key) != head.version:
                self._compare(number, head.key, head)
                await asyncio.sleep(0)
        named = [topic for topic in declared.topics if namespace_of(topic) == name]
        for count, topic in enumerate({*named, *await self._known(declared, name)}):
            if count % _PAGE == 0:
                await asyncio.sleep(0)
            for key in (PolicyKey(topic, scope) for scope in Scope):
                if key not in now:
                    now[key] = ABSENT
                    if seen.get(key) != ABSENT:
                        self._compare(number, key, await self._held[name].get(key))
        for other in [each for each in self._drifted if each[0] == number and namespace_of(each[1].topic) == name]:
            if other[1] not in now:
                del self._drifted[other]

    async def _known(self, declared: Declared, name: str) -> frozenset[str]:
        """Returns the topics of a namespace that patterns may match and that have no document: the cluster is asked now and then."""
        if self._cluster is None or not any(each.pattern and namespace_of(each.topic) == name for each in declared.declarations):
            return frozenset()
        now = asyncio.get_running_loop().time()
        asked_at, topics = self._topics.get(name, (-_TOPICS_SECONDS, frozenset()))
        if now >= asked_at + _TOPICS_SECONDS:
            topics = await self._cluster.all_topics(name)
            self._topics[name] = now, topics
        return topics

    def _compare(self, number: int, key: PolicyKey, head: Head | None) -> None:
        declarations = [each for each in self._declared[number].covering(key.topic) if Scope(each.scope) is key.scope]
        if declarations and not parse_topic(key.topic).is_system_topic:
            at = key.topic, declarations[0].scope
            document = PolicyDocument(topic=at[0], scope=at[1], version=head.version if head is not None else ABSENT)
            if head is not None and head.document is not None:
                document.policies.MergeFromString(secrets.wire(head.document))
            found = steps({at: declarations}, {at: document}, prune=None)
            self._note(number, key, head, found[0] if found else None)

    def _note(self, number: int, key: PolicyKey, head: Head | None, step: Step | None) -> None:
        """Takes note of a document that was compared, and says so if it is not as declared, or is so again."""
        name = f"{key.topic} ({key.scope.name})"
        declarer = self._declarer(number)
        if step is None:
            if self._drifted.pop((number, key), None) is not None:
                _LOG.info("%s is as %s declares again", name, declarer)
            return
        self._drifted[number, key] = step
        found = between(policies_of(step.document), step.values)
        differences = ", ".join(f"{printable_path(each.path)} is {each.before or UNSET}, not {each.after or UNSET}" for each in found)
        placed = head.placed if head is not None else None
        last = f"; changed last by {writer_in_words(placed)}" if placed is not None and placed.event is not None else ""
        _LOG.warning("%s is not as %s declares: %s%s", name, declarer, differences, last)

    def _declarer(self, number: int) -> str:
        return self._declared[number].owner or str(self._path)

    async def _put_back(self) -> None:
        changed: set[PolicyKey] = set()
        for (number, key), whole in list(self._drifted.items())[:_MOST_A_ROUND]:
            if key in changed:  # for another owner: it is compared again first
                continue
            changed.add(key)
            if (number, key) in self._drifted:  # next time after all others: what is left to another owner must not keep them waiting
                self._drifted[number, key] = self._drifted.pop((number, key))
            try:
                step = await self._ours(self._declared[number].owner, key, whole)
                if step is not None:
                    await self._update(number, key, step)
                    self.outcomes["applied"] += 1
                    self._drifted.pop((number, key), None)
                    _LOG.info("%s (%s) was put back as %s declares", key.topic, key.scope.name, self._declarer(number))
            except NotLeader:  # the sidecar that leads puts it back
                continue
            except PolicyError as error:
                self.outcomes["failed"] += 1
                _LOG.warning("%s (%s) can't be put back: %s", key.topic, key.scope.name, error.message)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _ours(self, owner: str, key: PolicyKey, step: Step) -> Step | None:
        """Returns the part of a step that changes nothing that another owner has declared; None: there is none."""
        history = self._registry.common.history
        if history is None:
            return step
        page = await history.page(Query(namespace_of(key.topic), key.topic, frozenset({key.scope}), most=_PAGE))
        changes = (each for each in page.entries if each.outcome == OUTCOMES[Status.APPLIED])
        others = owned_by_others(step.mask, owner, ((each.owner, each.paths, each.after is not None) for each in changes))
        for path, other in {each: other for each, other in others.items() if (key, each, other) not in self._claimed}.items():
            self._claimed.add((key, path, other))
            _LOG.warning("%s (%s): %s is left as it is, because %s declared it", key.topic, key.scope.name, path, other)
        mask = tuple(path for path in step.mask if path not in others)
        return Step(step.document, step.values, mask) if mask else None

    async def _update(self, number: int, key: PolicyKey, step: Step) -> None:
        namespace = namespace_of(key.topic)
        request = Request(
            key,
            compile_change(step.values, step.mask, {}),
            uuid.uuid4().hex,
            "",
            actor="declared",
            reason=f"as {self._path} declares",
            version=step.document.version,
            owner=self._declared[number].owner,
            constraints=self.constraints_of(key.topic),
        )
        if self._cluster is not None and (waiting := self._cluster.admit(namespace, request)) is not None:
            await waiting
        await self._held[namespace].update(request)


def _namespaces(declared: Declared) -> list[str]:
    return list(dict.fromkeys(namespace_of(each.topic) for each in declared.declarations))


async def _heads(namespace: Namespace) -> AsyncIterator[Head]:
    """Yields the documents of a namespace."""
    after: PolicyKey | None = None
    more = True
    while more:
        heads, more, _ = await namespace.page(_SCOPES, after, _PAGE, _PAGE_BYTES)
        for head in heads:
            yield head
        after = heads[-1].key if heads else None
        await asyncio.sleep(0)


def _read(path: Path) -> Sequence[Declared]:
    try:
        return by_owner([path])
    except InvalidArgument as error:
        raise ValueError(error.message) from None
