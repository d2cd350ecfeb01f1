"""Bugs of the fold, planted one by one: the tests of worlds must catch each.

With the bug, a world must break a promise. Without it the same runs pass, as ``test_worlds`` shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from tests.core.fold.model.clusters import Clusters
from tests.core.fold.model.exhaustive import Search
from tests.core.fold.model.kinds import WORLDS, WorldKind
from tests.core.fold.model.world import Broken, World
from topicpolicies_server.core.changes.plan import touched_by
from topicpolicies_server.core.fold import fold as rules
from topicpolicies_server.core.fold import inference, joining, operation
from topicpolicies_server.core.fold.fold import FoldContext, Folded, KeyState
from topicpolicies_server.core.fold.inference import Inference, infer
from topicpolicies_server.core.fold.keystate import Superseded
from topicpolicies_server.core.policies.documents import Setting, Settings, differing, family
from topicpolicies_server.core.policies.events import Event, Placed, Stamp

SEEDS = 60
UNDONE = "nothing acknowledged is undone"


def broken(kind: WorldKind, seeds: int = SEEDS, *, named: tuple[str, ...] = ("",)) -> str:
    """Returns the first of the named promises that a world breaks; empty: it breaks none."""
    for seed in range(seeds):
        try:
            World(kind, seed).run()
        except Broken as error:
            if any(promise in str(error) for promise in named):
                return str(error)
    return ""


def of_families(changed: Iterable[Setting], *documents: Settings | None) -> list[Setting]:
    """Returns all settings of the fields to which some settings belong."""
    touched = {family(name) for name in changed}
    return sorted({name for document in documents for name in document or () if family(name) in touched} | set(changed))


def test_comparing_or_merging_whole_fields_instead_of_settings_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_field_apart(raw: Settings | None, document: Settings, known: frozenset[str] | None) -> list[Setting] | None:
        changed = [name for name in differing(raw, document) if inference.compares(name, known)]
        return of_families(changed, raw, document) if len({family(name) for name in changed}) <= 1 else None

    def touched_fields(paths: tuple[str, ...], head: Settings | None, document: Settings | None) -> list[Setting]:
        return of_families(touched_by(paths, head, document), head, document)

    with monkeypatch.context() as planted:
        planted.setattr(inference, "one_apart", one_field_apart)
        assert UNDONE in broken(WORLDS["guard"])
    with monkeypatch.context() as planted:
        planted.setattr(operation, "touched_by", touched_fields)
        assert UNDONE in broken(WORLDS["sidecars"])


def test_always_taking_the_newest_raw_document_as_the_base_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def newest(document: Settings, live: Settings | None, *_: object) -> Inference:
        return Inference(differing(live, document), live)

    monkeypatch.setattr(rules, "infer", newest)
    assert UNDONE in broken(WORLDS["mixed"])
    assert UNDONE in broken(WORLDS["guard"])
    search = Search(1, 1, chained=True)
    search.run()
    assert UNDONE in search.wrong[0]


def test_folding_a_repair_like_an_operation_is_caught_in_worlds_with_a_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_operation(state: KeyState, placed: Placed, event: Event, stamp: Stamp, context: FoldContext, _: bool) -> Folded:
        folded = operation.apply(state, placed, stamp, event.document)
        state.advance(event.document, stamp.event_id, placed.published_at, context.window_ms, context.sole_writer)
        state.due = False
        return folded

    monkeypatch.setattr(rules, "_restated", as_operation)
    assert "a restatement changes no head" in broken(WORLDS["guard"])


def test_a_window_that_is_shorter_than_the_brokers_lag_is_caught() -> None:
    assert UNDONE in broken(replace(WORLDS["guard"], window_ms=20))


def test_taking_an_old_guess_for_known_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guess counts as known W after the key's first event, as in an earlier version: late repairs are not believed."""
    fold = rules.fold

    def with_time(state: KeyState, placed: Placed, context: FoldContext) -> Folded:
        if state.joined is not None and state.joined.first and state.all_seen(placed.published_at, context.window_ms):
            state.since = ""
        return fold(state, placed, context)

    monkeypatch.setattr(rules, "fold", with_time)
    for kind in ("late repairs", "late guards"):
        assert broken(WORLDS[kind], named=("a restatement changes no head", "all who read the same prefix agree"))


def test_believing_a_writer_that_has_seen_less_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "has_seen_more", lambda _state, stamp: stamp.history is not None)
    assert broken(WORLDS["late repairs"])


def test_taking_every_folded_event_for_certain_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "check_certainty", lambda *_, **__: True)
    assert broken(WORLDS["joining"]) or broken(WORLDS["late guards"])


def test_believing_an_operation_although_other_events_came_in_between_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "_after", lambda *_: [])
    assert broken(WORLDS["late repairs"])


def test_taking_the_head_as_a_candidate_for_the_base_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_head(document: Settings, live: Settings | None, older: Iterable[Superseded], head: Settings | None, *rest: Any) -> Inference:
        return infer(document, head, [*older, Superseded(live, 1 << 60, "")], head, *rest)

    monkeypatch.setattr(rules, "infer", with_head)
    assert "a broker that has read everything is understood" in broken(WORLDS["mixed"])


def test_comparing_settings_that_the_writers_schema_lacks_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (rules, inference):
        monkeypatch.setattr(module, "compares", lambda *_: True)
    counts: Counter[str] = Counter()
    message = ""
    for seed in range(SEEDS):
        try:
            counts += World(WORLDS["schemas"], seed).run()
        except Broken as error:
            message += str(error)
        if UNDONE in message:
            break
    assert UNDONE in message or counts["undone, unexplained"] > 0


def test_replicating_repairs_is_caught() -> None:
    with pytest.raises(Broken, match="repairs do not loop"):
        for seed in range(10):
            Clusters(WORLDS["mixed"], seed, both=True, replicate_repairs=True).run()


# -- bugs of operations ----------------------------------------------------------------------------------------------------


def test_skipping_a_stale_event_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = operation.judge

    def skipping(state: KeyState, placed: Placed, event: Event, stamp: Stamp) -> Folded:
        if stamp.base not in (state.base, state.head_event):
            return Folded(rules.Status.REJECTED_ETAG, state.version, state.version)
        return judge(state, placed, event, stamp)

    monkeypatch.setattr(rules, "judge", skipping)
    assert "an etag decides" in broken(WORLDS["sidecars"])


def test_applying_a_repeated_request_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyState, "remembers", lambda *_: None)
    assert "a request is applied once" in broken(WORLDS["sidecars"])


def test_not_comparing_what_an_operation_read_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation, "digest", lambda _: "")
    judge = operation.judge
    monkeypatch.setattr(rules, "judge", lambda state, placed, event, stamp: judge(state, placed, event, stamp._replace(reads={})))
    assert UNDONE in broken(WORLDS["sidecars"])


def test_taking_a_list_from_the_event_instead_of_changing_it_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    operated: Callable[..., Settings] = operation.operated
    monkeypatch.setattr(operation, "operated", lambda head, document, stamp: operated(head, document, stamp._replace(operands={})))
    assert UNDONE in broken(WORLDS["sidecars"])


def test_not_repairing_an_event_that_lacks_an_applied_request_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "_misremembers", lambda *_: False)
    assert "knows what was applied" in broken(WORLDS["sidecars"])
