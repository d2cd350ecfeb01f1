"""Drift: documents that are not as the declared policies of a server say. It is found, reported, and put back if that is asked for.

docs/declared-policies.md describes it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
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
from .steps import Step, owned_by_others, step_of
from .values import between, policies_of, printable_path, shown

LOOK_SECONDS = 5.0
"""How often documents are compared."""
_LOOKS_A_LISTING = 3
"""How often the cluster is asked for the topics of a namespace, which takes brokers a while if there are many."""
_PAUSE_SECONDS = 0.1
"""Between two updates that put something back: at most ten in a second, so that other callers are not held up."""
_MOST_A_ROUND = 50
"""Updates between two looks."""
_PAGE = 1_000
_TOPICS_AT_ONCE = 200
_LOG = logging.getLogger(__name__)


class Drift:
    """Compares the documents of a server with declared policies, again and again."""

    def __init__(self, registry: Registry, cluster: Cluster | None, path: Path, declared: Sequence[Declared], *, enforce: bool) -> None:
        """Compares nothing yet. ``declared``: what each owner declares in the files of ``path``; ``enforce``: whether drift is put back."""
        self._registry = registry
        self._cluster = cluster
        self._path = path
        self._declared = declared
        self._enforce = enforce
        self._topics: dict[str, frozenset[str]] = {}
        """What the cluster answered when it was asked for the topics of a namespace."""
        self._compared: dict[tuple[str, PolicyKey], tuple[Position, Step | None]] = {}
        """By owner and document: the version that was compared, and what makes it as declared; None: it is."""
        self._held: dict[str, Namespace] = {}
        self._task = RestartedTask("looking for drift", self._run, pause_seconds=LOOK_SECONDS)

    def by_namespace(self) -> Mapping[str, int]:
        """Returns how many documents of each namespace are not as declared. Any thread may call this."""
        drifted = (namespace_of(key.topic) for (_, key), (_, step) in list(self._compared.items()) if step is not None)
        return dict.fromkeys(list(self._held), 0) | Counter(drifted)

    def constraints_of(self, topic: str) -> list[Constraint]:
        """Returns what changes of a topic may make of it."""
        return constraints_of(topic, self._declared)

    def start(self, reloader: Reloader) -> None:
        """Begins to compare. ``reloader``: has the files read again when they change."""
        reloader.add("declared policies", (self._path,), lambda: _read(self._path), self._take, self._declared)
        self._task.start()

    def _take(self, declared: Sequence[Declared]) -> None:
        self._declared = declared

    async def stop(self) -> None:
        """Ends all comparing."""
        await self._task.stop()
        for namespace in self._held.values():
            namespace.release(self)

    async def _run(self) -> None:
        declared: Sequence[Declared] = ()
        for count in itertools.count():
            if declared is not self._declared:
                declared = self._declared
                self._compared.clear()
                for name in self._held.keys() - {name for each in declared for name in _namespaces(each)}:
                    self._held.pop(name).release(self)
            for one in declared:
                for name in _namespaces(one):
                    try:
                        await self._look(one, name, listing=count % _LOOKS_A_LISTING == 0)
                    except PolicyError as error:
                        _LOG.warning("%s can't be compared with what is declared: %s", name, error.message)
            if self._enforce:
                await self._put_back()
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self, declared: Declared, name: str, *, listing: bool) -> None:
        """Compares the documents of a namespace that have changed since the last look. ``listing``: whether new topics are asked for."""
        if name not in self._held:
            self._held[name] = namespace = self._registry.get(name)
            namespace.hold(self)
        namespace = self._held[name]
        patterns = any(each.pattern and namespace_of(each.topic) == name for each in declared.declarations)
        if listing and patterns and self._cluster is not None:
            self._topics[name] = await self._cluster.all_topics(name)
        named = {topic for topic in declared.topics if namespace_of(topic) == name}
        topics = await namespace.topics() | self._topics.get(name, frozenset()) | named
        scopes = {Scope(each.scope) for each in declared.declarations}
        for count, topic in enumerate(topics):
            for key in (PolicyKey(topic, scope) for scope in scopes):
                await self._compare(declared, key, await namespace.get(key))
            if count % _TOPICS_AT_ONCE == 0:
                await asyncio.sleep(0)
        for owner, key in list(self._compared):
            if owner == declared.owner and namespace_of(key.topic) == name and key.topic not in topics:
                del self._compared[owner, key]

    async def _compare(self, declared: Declared, key: PolicyKey, head: Head | None) -> None:
        """Compares a document, unless this version was compared, and says so if it is not as declared, or is so again."""
        version = head.version if head is not None else ABSENT
        known, before = self._compared.get((declared.owner, key), (None, None))
        if known == version:
            return
        step = _step(declared, key, head)
        if step is not None:
            step = await self._ours(declared.owner, key, step)
        self._compared[declared.owner, key] = version, step
        name, declarer = f"{key.topic} ({key.scope.name})", declared.owner or str(self._path)
        if step is not None:
            found = between(policies_of(step.document), step.values)
            differences = ", ".join(
                f"{printable_path(path)} is {shown(path, present)}, not {shown(path, wanted)}" for path, present, wanted in found
            )
            placed = head.placed if head is not None else None
            last = f"; changed last by {writer_in_words(placed)}" if placed is not None and placed.event is not None else ""
            _LOG.warning("%s is not as %s declares: %s%s", name, declarer, differences, last)
        elif before is not None:
            _LOG.info("%s is as %s declares again", name, declarer)
        await asyncio.sleep(0)

    async def _put_back(self) -> None:
        changed: set[PolicyKey] = set()
        led_elsewhere: set[str] = set()
        drifted = ((where, version, step) for where, (version, step) in list(self._compared.items()) if step is not None)
        for (owner, key), version, step in itertools.islice(drifted, _MOST_A_ROUND):
            namespace = namespace_of(key.topic)
            if namespace in led_elsewhere or key in changed:  # changed for another owner: it is compared again first
                continue
            self._compared[owner, key] = self._compared.pop((owner, key))  # next time after the others: it may fail
            name, declarer = f"{key.topic} ({key.scope.name})", owner or str(self._path)
            try:
                await self._update(owner, key, step)
                changed.add(key)
                _LOG.info("%s was put back as %s declares", name, declarer)
                self._compared[owner, key] = version, None
            except NotLeader:  # the sidecar that leads puts it back
                led_elsewhere.add(namespace)
                continue
            except PolicyError as error:
                _LOG.warning("%s can't be put back: %s", name, error.message)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _ours(self, owner: str, key: PolicyKey, step: Step) -> Step | None:
        """Returns the part of a step that changes nothing that another owner has declared; None: there is none."""
        history = self._registry.common.history
        if history is None:
            return step
        page = await history.page(Query(namespace_of(key.topic), key.topic, frozenset({key.scope}), most=_PAGE))
        changes = (each for each in page.entries if each.outcome == OUTCOMES[Status.APPLIED])
        others = owned_by_others(step, owner, ((each.owner, each.paths, each.after is not None) for each in changes))
        for path, other in others.items():
            _LOG.warning("%s (%s): %s is left as it is, because %s declared it", key.topic, key.scope.name, path, other)
        mask = tuple(path for path in step.mask if path not in others)
        return Step(step.document, step.values, mask) if mask else None

    async def _update(self, owner: str, key: PolicyKey, step: Step) -> None:
        namespace = namespace_of(key.topic)
        request = Request(
            key,
            compile_change(step.values, step.mask, {}),
            uuid.uuid4().hex,
            "",
            actor="declared",
            reason=f"as {self._path} declares",
            version=step.document.version,
            owner=owner,
            constraints=self.constraints_of(key.topic),
        )
        if self._cluster is not None and (waiting := self._cluster.admit(namespace, request)) is not None:
            await waiting
        await self._held[namespace].update(request)


def _step(declared: Declared, key: PolicyKey, head: Head | None) -> Step | None:
    """Returns what makes a document as declared; None: it is, or nothing is declared of it."""
    declarations = [each for each in declared.covering(key.topic) if Scope(each.scope) is key.scope]
    if not declarations or parse_topic(key.topic).is_system_topic:
        return None
    document = PolicyDocument(topic=key.topic, scope=declarations[0].scope, version=head.version if head is not None else ABSENT)
    if head is not None and head.document is not None:
        document.policies.MergeFromString(secrets.wire(head.document))
    return step_of(document, declarations, prune=False)


def _namespaces(declared: Declared) -> list[str]:
    return list(dict.fromkeys(namespace_of(each.topic) for each in declared.declarations))


def _read(path: Path) -> Sequence[Declared]:
    try:
        return by_owner([path])
    except InvalidArgument as error:
        raise ValueError(error.message) from None
