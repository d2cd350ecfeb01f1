"""What is kept of a key, and for how long."""

from __future__ import annotations

import gc
import tracemalloc

from tests.core.fold.script import RATE, TTL, Script
from topicpolicies_server.core.fold.fold import FoldContext, KeyState, fold
from topicpolicies_server.core.fold.keystate import RECENT_EVENTS, SOLE_WRITER_EVENTS
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Action, Event, Placed, Stamp, StampKind


def test_no_raw_documents_are_kept_in_the_log_of_a_sole_writer() -> None:
    script = Script(FoldContext(sole_writer=True))
    for number in range(10):
        script.update({TTL: b"%d" % number})
    assert script.kept() == 0 and script.state.superseded_ids is not None and len(script.state.superseded_ids) == 9
    script.state.trim(script.now)
    assert script.state.superseded_ids is None


def test_a_busy_key_keeps_a_bounded_number_of_events() -> None:
    for sole_writer, most in ((False, RECENT_EVENTS), (True, SOLE_WRITER_EVENTS)):
        script = Script(FoldContext(sole_writer=sole_writer))
        for number in range(2 * most):
            script.update({TTL: b"%d" % number}, wait=0)
            assert script.kept() <= most * 5 // 4 and len(script.state.superseded_ids or ()) <= most * 5 // 4
            assert number < most or len(script.state.superseded_ids or ()) >= most


def test_a_calm_key_keeps_little_more_than_the_window() -> None:
    script = Script(FoldContext(window_ms=1_000))
    for number in range(1_000):
        script.broker({TTL: b"%d" % number}, wait=50)
    assert script.state.older is not None and 20 <= len(script.state.older) <= 40


def test_an_idle_key_that_is_trimmed_keeps_only_its_head() -> None:
    script = Script()
    for number in range(5):
        script.update({TTL: b"%d" % number})
    script.state.trim(script.now + 60_000)
    assert script.kept() == 5
    script.state.trim(script.now + 60_001)
    assert script.kept() == 0 and script.state.superseded_ids is None
    assert script.document == {TTL: b"4"} and len(script.state.remembered) == 5


def test_trimming_changes_no_later_inference() -> None:
    trimmed, untouched = Script(), Script()
    for script in (trimmed, untouched):
        script.broker({TTL: b"1"})
        script.broker({TTL: b"2"})
    trimmed.state.trim(trimmed.now + 60_001)
    for script in (trimmed, untouched):
        script.broker({RATE: b"1"}, on={TTL: b"1"}, wait=60_001)
    assert trimmed.document == untouched.document


def test_equal_documents_are_kept_once() -> None:
    script = Script()
    script.update({TTL: b"1"})
    assert script.shown() is script.document
    script.broker({RATE: b"2"}, on={})
    script.restate()
    assert script.shown() is script.document


def test_an_idle_key_and_its_document_take_less_than_1250_bytes() -> None:
    keys, context = 2_000, FoldContext(joining=True)
    gc.collect()
    tracemalloc.start()
    states = []
    for number in range(keys):
        key = PolicyKey("persistent://t/n/x", Scope.LOCAL)
        settings = dict.fromkeys(("retention_policies", "dispatch_rate", "publish_rate", "message_ttl_in_seconds"), b"%07d" % number)
        stamp = Stamp(f"{number:032x}", StampKind.UPDATE, request_id=f"{number:036x}", digest="0" * 16, mask=("publish_rate",), base="x")
        state = KeyState()
        fold(state, Placed(0, f"{number:033x}", Event(key, Action.UPDATE, settings, stamp), 1_000), context)
        state.trim(1_000_000)
        states.append(state)
    gc.collect()
    size = tracemalloc.get_traced_memory()[0] / keys
    tracemalloc.stop()
    assert size < 1_250, f"{size:.0f} bytes, of which the documents and their strings are about 600"
