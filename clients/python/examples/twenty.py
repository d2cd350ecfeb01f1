"""Twenty things that every client does alike, on an empty namespace: ``twenty.py ADDRESS NAMESPACE`` (``tests/clients/twenty.md``)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NoReturn

import topicpolicies as tp

FIRST_ID = "0123456789abcdef0123456789abcdef"
PATIENCE = 30.0


class Tour:
    """The twenty things, in order."""

    def __init__(self, client: tp.Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._changes: list[tp.ChangeResult] = []
        """The results of the changes of topic a so far."""

    def lines(self) -> Iterator[tuple[str, str]]:
        """Does the things one by one; yields the name and the result of each."""
        yield "update", self._update()
        yield "repeat", self._repeat()
        yield "unchanged", _outcome(self._client.update(self._topic("a"), max_producer_per_topic=5))
        yield "dry run", self._dry_run()
        yield "no mask", self._no_mask()
        yield "clear", self._clear()
        yield "list", self._list()
        yield "version", self._refused(version=self._changes[-1].previous_version)
        yield "absent", self._refused(exists=False)
        yield "skip", _outcome(self._client.update(self._topic("b"), max_producer_per_topic=1, skip_if_absent=True))
        yield "violations", self._violations()
        yield "edit", self._edit()
        yield "batch", self._batch()
        yield "scopes", self._scopes()
        yield "as of", str(_field(self._client.as_of(self._topic("a"), self._changes[0].version)))
        yield "effective", self._effective()
        yield "list documents", self._documents()
        yield "delete", self._delete()
        yield "watch and cache", self._cache()
        yield "history", self._history()

    def _topic(self, local: str) -> str:
        return f"persistent://{self._namespace}/{local}"

    def _changed(self, result: tp.ChangeResult) -> tp.ChangeResult:
        self._changes.append(result)
        return result

    def _first(self) -> tp.ChangeResult:
        return self._client.update(self._topic("a"), max_producer_per_topic=5, request_id=FIRST_ID, actor="tour", reason="first")

    def _update(self) -> str:
        result = self._changed(self._first())
        return f"{_outcome(result)}, {_replayed(result)}"

    def _repeat(self) -> str:
        result = self._first()
        same = "same version" if result.version == self._changes[0].version else "other version"
        return f"{_outcome(result)}, {_replayed(result)}, {same}"

    def _dry_run(self) -> str:
        result = self._client.update(self._topic("a"), max_producer_per_topic=6, validate_only=True)
        return f"{_outcome(result)}, {_field(result.document)}, {_field(self._client.get(self._topic('a')))}"

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
        union = {name: tp.LIST_OPERATION_UNION}
        added = self._changed(self._client.update(a, subscription_types_enabled=["FAILOVER", "SHARED"], list_operations=union))
        subtract = {name: tp.LIST_OPERATION_SUBTRACT}
        self._changed(self._client.update(a, subscription_types_enabled=["SHARED"], list_operations=subtract))
        return f"{_types(added.document)}, {_types(self._client.get(a))}"

    def _refused(self, *, version: str | None = None, exists: bool | None = None) -> str:
        error = _error(lambda: self._client.update(self._topic("a"), max_producer_per_topic=8, version=version, exists=exists))
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
        return f"{_outcome(added)}, {_field(added.document)}, {_outcome(nothing)}"

    def _batch(self) -> str:
        changes = [tp.update_request(self._topic(f"m{number % 10}"), max_producer_per_topic=number) for number in range(200)]
        outcomes = [outcome for _, outcome in self._client.batch([*changes, tp.update_request(self._topic("m0"), mask=["nope"])])]
        failed = [outcome.reason for outcome in outcomes if isinstance(outcome, tp.TopicPoliciesError)]
        applied = sum(isinstance(outcome, tp.ChangeResult) and _outcome(outcome) == "APPLIED" for outcome in outcomes)
        return f"{applied}, {len(failed)}, {','.join(failed)}, {_field(self._client.get(self._topic('m0')))}"

    def _scopes(self) -> str:
        c = self._topic("c")
        self._client.update(c, max_producer_per_topic=3, scope=tp.SCOPE_GLOBAL)
        documents = [self._client.get(c, scope=scope) for scope in (tp.SCOPE_LOCAL, tp.SCOPE_GLOBAL)]
        return ", ".join(f"{_scope(each)} {_field(each) if each.HasField('policies') else 'absent'}" for each in documents)

    def _effective(self) -> str:
        effective = self._client.effective(self._topic("c"))
        (source,) = (each.source for each in effective.sources if each.path == "max_producer_per_topic")
        return f"{effective.policies.max_producer_per_topic}, {tp.PolicySource.Name(source).removeprefix('POLICY_SOURCE_')}"

    def _documents(self) -> str:
        return ",".join(f"{each.topic.rpartition('/')[2]} {_scope(each)}" for each in self._client.list(self._namespace))

    def _delete(self) -> str:
        c = self._topic("c")
        local, there = (self._client.get(c, scope=scope).version for scope in (tp.SCOPE_LOCAL, tp.SCOPE_GLOBAL))
        wrong = _error(lambda: self._client.delete(c, scope=tp.SCOPE_GLOBAL, version=local))
        right = self._client.delete(c, scope=tp.SCOPE_GLOBAL, version=there)
        again = self._client.delete(c, scope=tp.SCOPE_GLOBAL)
        return f"{wrong.reason}, {_outcome(right)}, {_outcome(again)}"

    def _cache(self) -> str:
        a, heard, changed = self._topic("a"), list[int](), threading.Event()

        def listen(before: tp.PolicyDocument | None, after: tp.PolicyDocument | None) -> None:
            if before is not None and before.topic == a:  # not the present document, which a new listener gets first
                heard.extend((_field(before), _field(after)))
                changed.set()

        with self._client.cache(namespaces=[self._namespace]) as cache:
            if not cache.wait_synced(PATIENCE):
                _fail("the cache was not synced in time")
            cache.listen(listen)
            self._client.update(a, max_producer_per_topic=40)
            if not changed.wait(PATIENCE):
                _fail("the listener was not called in time")
            answer = _field(cache.get(f"{self._namespace}/a"))
            fresh = "fresh" if cache.age() < 60 else "stale"
        return f"{heard[0]}, {heard[1]}, {answer}, {fresh}"

    def _history(self) -> str:
        with self._client.watch_history([self._namespace], until_synced=True, patience=PATIENCE) as watch:
            entries = [event.entry for event in watch if event.HasField("entry") and event.entry.document.topic == self._topic("a")]
        chained = all(after.previous.version == before.document.version for before, after in pairwise(entries))
        origin, log = entries[0].origin, tp.LogKind.Name(self._client.server_info().log).removeprefix("LOG_KIND_")
        return f"{len(entries)}, {'chained' if chained else 'broken'}, {origin.actor}, {origin.reason}, {log}"


def _policies(document: tp.PolicyDocument | None) -> tp.TopicPolicies:
    if document is None or not document.HasField("policies"):
        _fail("there is no document")
    return document.policies


def _field(document: tp.PolicyDocument | None) -> int:
    return _policies(document).max_producer_per_topic


def _types(document: tp.PolicyDocument) -> str:
    names = map(tp.SubscriptionType.Name, _policies(document).subscription_types_enabled)
    return ",".join(name.removeprefix("SUBSCRIPTION_TYPE_") for name in names)


def _outcome(result: tp.ChangeResult) -> str:
    return tp.ChangeOutcome.Name(result.outcome).removeprefix("CHANGE_OUTCOME_")


def _scope(document: tp.PolicyDocument) -> str:
    return tp.Scope.Name(document.scope).removeprefix("SCOPE_")


def _replayed(result: tp.ChangeResult) -> str:
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
