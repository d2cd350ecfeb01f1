"""How fast the fold is, and how much memory it keeps.

python bench/fold_speed.py
"""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
import uuid
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "clients" / "python"), str(ROOT / "server")]

from topicpolicies_server.core.fold.fold import FoldContext, KeyState, fold  # noqa: E402
from topicpolicies_server.core.names import PolicyKey, Scope  # noqa: E402
from topicpolicies_server.core.policies.documents import Settings  # noqa: E402
from topicpolicies_server.core.policies.events import Action, Event, Placed, Stamp, StampKind  # noqa: E402

KEY = PolicyKey("persistent://public/default/topic", Scope.LOCAL)
NAMES = ("retention_policies", "dispatch_rate", "publish_rate", "message_ttl_in_seconds", "max_producer_per_topic")
KEYS = 100_000


def document(number: int) -> dict[str, bytes]:
    """Returns a document of five settings, one of which is new."""
    return {name: b"\x0a\x04abcd" + (b"%d" % number if index == number % 5 else b"") for index, name in enumerate(NAMES)}


def position(number: int) -> str:
    """Returns a position as long as that of a Pulsar message id."""
    return f"{7:016x}.{number:016x}"


def ours(number: int, base: str, at: int, key: PolicyKey = KEY) -> Placed:
    """Returns a sidecar's update of one setting."""
    stamp = Stamp(
        event_id=uuid.uuid4().hex,
        kind=StampKind.UPDATE,
        request_id=str(uuid.uuid4()),
        digest="0123456789abcdef",
        mask=(NAMES[number % 5],),
        base=base,
    )
    return Placed(0, position(number), Event(key, Action.UPDATE, document(number), stamp), at)


def updates(context: FoldContext, gap: int) -> float:
    """Returns the microseconds per event of a sidecar, one after the other on one key."""
    placed = [ours(number, position(number - 1) if number else "", 1_000 + number * gap) for number in range(20_000)]
    state = KeyState()
    started = time.process_time()
    for each in placed:
        fold(state, each, context)
    return (time.process_time() - started) / len(placed) * 1e6


def brokers(stale: int, gap: int) -> float:
    """Returns the microseconds per event of a broker that was computed from a document ``stale`` events old."""
    context = FoldContext()
    state = KeyState()
    history = [document(0)]
    total = 0.0
    events = 2_000 if stale < 10 else 4_400
    for number in range(events):
        base = history[max(len(history) - 1 - stale, 0)]
        after = {**base, NAMES[number % 5]: b"\x0a\x06%06d" % number}
        history.append(after)
        placed = Placed(0, position(number), Event(KEY, Action.UPDATE, after), 1_000 + number * gap)
        started = time.process_time()
        fold(state, placed, context)
        if number >= events - 200:
            total += time.process_time() - started
    return total / 200 * 1e6


def unexplained(raws: int) -> float:
    """Returns the microseconds per event of a broker that none of ``raws`` raw documents explains."""
    context = FoldContext()
    state = KeyState()
    for number in range(raws + 1):
        fold(state, Placed(0, position(number), Event(KEY, Action.UPDATE, document(number)), 1_000 + number), context)
    odd = dict.fromkeys(NAMES, b"x")
    started = time.process_time()
    folded = fold(state, Placed(0, position(raws + 1), Event(KEY, Action.UPDATE, odd), 2_000 + raws), context)
    assert folded.unexplained
    return (time.process_time() - started) * 1e6


def kept(context: FoldContext, *, each: int, trimmed: bool) -> float:
    """Returns the bytes per key that keys with ``each`` events keep.

    Not included are the document of each event itself, and the strings of the key's name.
    """
    keys = [PolicyKey(f"persistent://public/default/topic-{number}", Scope.LOCAL) for number in range(KEYS // 10)]
    gc.collect()
    tracemalloc.start()
    states = []
    for number, key in enumerate(keys):
        state = KeyState()
        base = ""
        for event in range(each):
            placed = ours(number * each + event, base, 1_000 + event, key)
            base = placed.position
            fold(state, placed, context)
            del placed
        if trimmed:
            state.trim(1_000_000)
        states.append(state)
    gc.collect()
    size = tracemalloc.get_traced_memory()[0] / len(states)
    tracemalloc.stop()
    return size


def document_bytes() -> float:
    """Returns the bytes of one document and its version, which any store of heads has to keep."""
    tracemalloc.start()
    documents: list[tuple[Settings, str]] = [(document(number), position(number)) for number in range(10_000)]
    size = tracemalloc.get_traced_memory()[0] / len(documents)
    tracemalloc.stop()
    return size


def main() -> None:
    """Measures everything once; times are the best of three."""

    def best(measure: Callable[[], float]) -> float:
        return min(measure() for _ in range(3))

    sole, shared, joining = FoldContext(sole_writer=True), FoldContext(), FoldContext(joining=True)
    print(f"our event, sole writer              {best(lambda: updates(sole, 1)):8.2f} us")
    print(f"our event, shared, 10 per second    {best(lambda: updates(shared, 100)):8.2f} us")
    print(f"our event, shared, 1000 per second  {best(lambda: updates(shared, 1)):8.2f} us")
    print(f"broker's event, newest raw is base  {best(lambda: brokers(0, 100)):8.2f} us")
    print(f"broker's event, 3 events stale      {best(lambda: brokers(3, 100)):8.2f} us")
    print(f"broker's event, 4,000 events stale  {best(lambda: brokers(4_000, 1)):8.0f} us")
    print(f"unexplained among 4,096 raws        {best(lambda: unexplained(4_095)):8.0f} us")
    base = document_bytes()
    print(f"document of 5 settings and version  {base:8.0f} bytes")
    for name, context, each, trimmed in (
        ("joined, one event", joining, 1, False),
        ("sole writer, one event", sole, 1, False),
        ("shared, one event, just now", shared, 1, False),
        ("shared, one event, trimmed", shared, 1, True),
        ("shared, 5 events, just now", shared, 5, False),
        ("shared, 5 events, trimmed", shared, 5, True),
        ("shared, 20 events, trimmed", shared, 20, True),
    ):
        print(f"key {name:30}  {kept(context, each=each, trimmed=trimmed):8.0f} bytes")


if __name__ == "__main__":
    main()
