"""Twenty things that every client does alike, on an empty namespace: ``twenty.py ADDRESS NAMESPACE`` (``tests/clients/twenty.md``)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NoReturn, Unpack

import topicpolicies as tp

FIRST_ID = "0123456789abcdef0123456789abcdef"
PATIENCE = 30.0


class Tour:
    """The twenty things, in order."""

    def __init__(self, client: tp.Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._changes: list[tp.UpdateResult] = []
        """The results of the changes of topic a so far."""

    def lines(self) -> Iterator[tuple[str, str]]:
        """Does the things one by one; yields the name and the result of each."""
        yield "update", self._update()
        yield "repeat", self._repeat()
        yield "unchanged", self._client.update(self._topic("a"), max_producer_per_topic=5).outcome.name
        yield "dry run", self._dry_run()
        yield "no mask", self._no_mask()
        yield "clear", self._clear()
        yield "list", self._list()
        yield "etag", self._refused(etag=self._changes[-1].previous_version)
        yield "must not exist", self._refused(must_not_exist=True)
        yield "skip", self._client.update(self._topic("b"), max_producer_per_topic=1, skip_if_absent=True).outcome.name
        yield "violations", self._violations()
        yield "edit", self._edit()
        yield "many", self._many()
        yield "scopes", self._scopes()
        yield "as of", str(_field(self._client.get(self._topic("a"), as_of_version=self._changes[0].version)))
        yield "effective", self._effective()
        yield "list documents", self._documents()
        yield "delete", self._delete()
        yield "watch and cache", self._cache()
        yield "every change", self._every_change()

    def _topic(self, local: str) -> str:
        return f"persistent://{self._namespace}/{local}"

    def _changed(self, result: tp.UpdateResult) -> tp.UpdateResult:
        self._changes.append(result)
        return result

    def _first(self) -> tp.UpdateResult:
        return self._client.update(self._topic("a"), max_producer_per_topic=5, request_id=FIRST_ID, actor="tour", reason="first")

    def _update(self) -> str:
        result = self._changed(self._first())
        return f"{result.outcome.name}, {_replayed(result)}"

    def _repeat(self) -> str:
        result = self._first()
        same = "same version" if result.version == self._changes[0].version else "other version"
        return f"{result.outcome.name}, {_replayed(result)}, {same}"

    def _dry_run(self) -> str:
        result = self._client.update(self._topic("a"), max_producer_per_topic=6, validate_only=True)
        return f"{result.outcome.name}, {_field(result.document)}, {_field(self._client.get(self._topic('a')))}"

    def _no_mask(self) -> str:
        a = self._topic("a")
        retention = tp.RetentionPolicies(retention_time_in_minutes=10, retention_size_in_mb=100)
        self._changed(self._client.update(a, retention_policies=retention))
        self._changed(self._client.update(a, max_producer_per_topic=7))
        document = self._client.get(a)
        return f"{_field(document)}, {_policies(document).retention_policies.retention_time_in_minutes}"

    def _clear(self) -> str:
        leaves = ["retention_policies.retention_time_in_minutes", "retention_policies.retention_size_in_mb"]
        self._changed(self._client.update(self._topic("a"), mask=leaves))
        return "set" if _policies(self._client.get(self._topic("a"))).HasField("retention_policies") else "unset"

    def _list(self) -> str:
        a, name = self._topic("a"), "subscription_types_enabled"
        self._changed(self._client.update(a, subscription_types_enabled=["SHARED"]))
        union = {name: tp.ListOperation.UNION}
        added = self._changed(self._client.update(a, subscription_types_enabled=["FAILOVER", "SHARED"], list_operations=union))
        subtract = {name: tp.ListOperation.SUBTRACT}
        self._changed(self._client.update(a, subscription_types_enabled=["SHARED"], list_operations=subtract))
        return f"{_types(added.document)}, {_types(self._client.get(a))}"

    def _refused(self, **condition: Unpack[tp.UpdateOptions]) -> str:
        error = _error(lambda: self._client.update(self._topic("a"), {"max_producer_per_topic": 8}, **condition))
        return f"{error.reason}, {error.code.name}"

    def _violations(self) -> str:
        error = _error(lambda: self._client.update(self._topic("a"), mask=["nope", "also.nope"]))
        fields = ",".join(violation.field for violation in error.violations)
        return f"{error.code.name}, {fields}, {','.join(violation.reason for violation in error.violations)}"

    def _edit(self) -> str:
        def add_one(policies: tp.TopicPolicies) -> None:
            policies.max_producer_per_topic += 1

        added = self._changed(self._client.edit(self._topic("a"), add_one))
        nothing = self._client.edit(self._topic("a"), lambda _: None)
        return f"{added.outcome.name}, {_field(added.document)}, {nothing.outcome.name}"

    def _many(self) -> str:
        changes = [tp.Update(self._topic(f"m{number % 10}"), max_producer_per_topic=number) for number in range(200)]
        settled = list(self._client.update_many([*changes, tp.Update(self._topic("m0"), mask=["nope"])]))
        failed = [each.error.reason for each in settled if each.error is not None]
        applied = sum(each.result is not None and each.result.outcome is tp.UpdateOutcome.APPLIED for each in settled)
        return f"{applied}, {len(failed)}, {','.join(failed)}, {_field(self._client.get(self._topic('m0')))}"

    def _scopes(self) -> str:
        self._client.update(self._topic("c"), max_producer_per_topic=3, scope=tp.Scope.GLOBAL)
        both = self._client.get_both(self._topic("c"))
        return ", ".join(f"{scope.name} {_field(both[scope]) if both[scope].exists else 'absent'}" for scope in tp.Scope)

    def _effective(self) -> str:
        effective = self._client.effective(self._topic("c"))
        return f"{effective.policies.max_producer_per_topic}, {effective.sources['max_producer_per_topic'].name}"

    def _documents(self) -> str:
        return ",".join(f"{each.topic.rpartition('/')[2]} {each.scope.name}" for each in self._client.list(self._namespace))

    def _delete(self) -> str:
        c = self._topic("c")
        both = self._client.get_both(c)
        wrong = _error(lambda: self._client.delete(c, scope=tp.Scope.GLOBAL, etag=both[tp.Scope.LOCAL].version))
        right = self._client.delete(c, scope=tp.Scope.GLOBAL, etag=both[tp.Scope.GLOBAL].version)
        again = self._client.delete(c, scope=tp.Scope.GLOBAL)
        return f"{wrong.reason}, {right.outcome.name}, {again.outcome.name}"

    def _cache(self) -> str:
        a, told, there = self._topic("a"), list[tp.Change](), threading.Event()

        def listen(change: tp.Change) -> None:
            if change.topic == a and change.before is not None:  # not the present document, which a new listener gets first
                told.append(change)
                there.set()

        with self._client.cache(namespaces=[self._namespace]) as cache:
            if not cache.wait_synced(PATIENCE):
                _fail("the cache was not synced in time")
            cache.listen(listen)
            self._client.update(a, max_producer_per_topic=40)
            if not there.wait(PATIENCE):
                _fail("the cache was not told in time")
            answer = _field(cache.get(f"{self._namespace}/a"))
            fresh = "fresh" if cache.staleness() < 60 else "stale"
        return f"{_field(told[0].before)}, {_field(told[0].after)}, {answer}, {fresh}"

    def _every_change(self) -> str:
        every = tp.WatchMode.EVERY
        watched = self._client.watch(topics=[self._topic("a")], mode=every, from_beginning=True, end_when_synced=True, patience=PATIENCE)
        with watched as watch:
            changes = [event for event in watch if isinstance(event, tp.Changed)]
        chained = all(after.previous_version == before.document.version for before, after in pairwise(changes))
        origin = changes[0].origin
        who = f"{origin.actor}, {origin.reason}" if origin is not None else "unknown"
        return f"{len(changes)}, {'chained' if chained else 'broken'}, {who}, {self._client.server_info().log.name}"


def _policies(document: tp.Document | None) -> tp.TopicPolicies:
    if document is None or document.policies is None:
        _fail("there is no document")
    return document.policies


def _field(document: tp.Document | None) -> int:
    return _policies(document).max_producer_per_topic


def _types(document: tp.Document | None) -> str:
    names = map(tp.SubscriptionType.Name, _policies(document).subscription_types_enabled)
    return ",".join(name.removeprefix("SUBSCRIPTION_TYPE_") for name in names)


def _replayed(result: tp.UpdateResult) -> str:
    return "replayed" if result.replayed else "new"


def _error(call: Callable[[], object]) -> tp.TopicPoliciesError:
    try:
        call()
    except tp.TopicPoliciesError as error:
        return error
    raise RuntimeError("it was not refused")


def _fail(problem: str) -> NoReturn:
    raise RuntimeError(problem)


def main(address: str, namespace: str) -> int:
    """Does the twenty things and prints their results. Returns the exit code: 1 if one fails."""
    with tp.Client(address, timeout=PATIENCE) as client:
        done = 0
        try:
            for done, (what, result) in enumerate(Tour(client, namespace).lines(), 1):
                print(f"{done:02} {what}: {result}", flush=True)
        except (tp.TopicPoliciesError, RuntimeError) as error:
            print(f"{done + 1:02} failed: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
