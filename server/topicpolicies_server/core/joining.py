"""Heads of keys whose history was not seen from the beginning, and how they are put right.

A sidecar that starts to read a compacted log sees one event of many. It takes that event's document as the head and the event as its
version. Both may be wrong: it may have been stale, or rejected, and a repair may come; and for W after it brokers may write documents
whose bases were not seen. So the key is *provisional*: reads and updates of it wait, and it is not repaired. Meanwhile it is put right by
what others write who know better:

- an event of ours whose base is this very version: its whole document was computed from the true head (``operation.judge``);
- a restatement, whatever its version. What was seen after that version is folded again on top: a greater version of ours may have
  been that of a rejected event.

It is settled W after the event that was first seen, if brokers show the head by then. Otherwise others had a reason not to repair it, or
there are none: after 2 W the head is taken as it is, as a *guess*, and repaired. A guess may be wrong until somebody contradicts it.
A key that seems new soon after joining may be an old one: a tombstone made compaction forget it, although something came between the
deletion and the tombstone, and a repair is on its way. So it is provisional too if its first event names a base or is a repair; and it
becomes provisional with a broker's event that nothing seen explains, because older documents may be bases still.

Whatever two sidecars think of a key, they come to agree, by the log's order, and never repair against each other for ever. A restatement
of a greater version is believed by everybody: whoever wrote it saw more. One of the same version is believed by those who guessed. Two
that did not cannot disagree about one version; should they do so nevertheless (two releases with different rules), the third
contradiction is believed.
"""

from __future__ import annotations

from .documents import Settings, merged
from .events import Action, Placed, Position, Remembered, Stamp
from .keystate import GUESSED, REMEMBERED_REQUESTS, WINDOW_MS, Joined, KeyState
from .operation import judge, move

BELIEVED_AFTER = 3
"""As often must a version whose history was seen be restated as something else before that is believed."""


def join(state: KeyState, placed: Placed, joined_at: int | None) -> None:
    """A key is first seen while joining; ``joined_at`` is that of the ``FoldContext``."""
    state.joined = GUESSED if joined_at is None else Joined(placed.position, placed.published_at)


def doubt(state: KeyState, placed: Placed, joined_at: int) -> None:
    """A key whose history was seen meets, soon after joining, a broker's event that nothing seen explains."""
    state.joined = Joined(placed.position, joined_at)
    state.joined.trusted = state.version


def settle(state: KeyState, now: int, window_ms: int = WINDOW_MS) -> bool:
    """Ends a key's provisional time if it is over at ``now``, in milliseconds since 1970 by the log's clock.

    Whoever opts for provisional keys (``FoldContext.joined_at``) calls it for every key once the log has been read, and later for those
    that are still provisional.

    Returns:
        Whether the key is settled, now or before.
    """
    known = state.joined
    if known is None or not known.since:
        return True
    if now < known.since + (2 * window_ms if state.due else window_ms):
        return False
    state.joined = GUESSED if state.due else None
    return True


def learn(state: KeyState, claimed: Settings | None, stamp: Stamp) -> None:
    """Takes a restatement of ``claimed`` for what it tells about the head, if anything."""
    version = stamp.head_version
    known = state.joined
    if claimed == state.document and (claimed is None or version == state.version):
        state.remembered = _remembered(state, stamp)
        return
    if version == state.version:
        state.contradictions += not state.due  # a copy of a contradiction is none
        if known is None and state.contradictions < BELIEVED_AFTER:
            return
    elif version < state.version and not _may_go_back(known, version):
        return
    believe(state, claimed, stamp)
    if known is not None and known.since:
        _fold_again(state, known, version)


def believe(state: KeyState, claimed: Settings | None, stamp: Stamp) -> None:
    """Takes the head and its version from a restatement."""
    version = stamp.head_version
    state.document = claimed
    state.version = state.head_event = version
    state.remembered = _remembered(state, stamp)
    if state.joined is not None and state.joined.since:
        state.joined.trusted = version


def _remembered(state: KeyState, stamp: Stamp) -> tuple[Remembered, ...]:
    """What is remembered after a restatement: of what was on its way when we joined, only what its writer knows to have come.

    An older absence than ours may be restated late: what was applied since is the newest all the same.
    """
    ours = {request.request_id: request for request in state.remembered if request.version}
    told = {request.request_id: request if request.version else ours.get(request.request_id, request) for request in stamp.remembered}
    older, newer = (told, ours) if stamp.head_version < state.version else (ours, told)
    return (*(request for request_id, request in older.items() if request_id not in newer), *newer.values())[-REMEMBERED_REQUESTS:]


def without_versions(requests: tuple[Remembered, ...]) -> tuple[Remembered, ...]:
    """Remembered requests of another cluster, whose positions mean nothing here."""
    return tuple(Remembered(request.request_id, request.digest, "", "") for request in requests)


def _may_go_back(known: Joined | None, version: Position) -> bool:
    """Whether a smaller version may be restored: what followed it can be folded again, or need not be."""
    if known is None or not known.trail or version < known.trusted:
        return False
    first, changed = known.trail[0]
    return version >= known.first or changed is not None or (first.event is not None and first.event.stamp is not None)


def _fold_again(state: KeyState, known: Joined, version: Position) -> None:
    """Folds what a provisional key saw after a version once more, on top of what was restated as that version."""
    later = [(placed, placed.event, changed) for placed, changed in known.trail if placed.position > version and placed.event is not None]
    again = {event.stamp.request_id for _, event, _ in later if event.stamp is not None}
    state.remembered = tuple(request for request in state.remembered if request.request_id not in again or "" < request.version <= version)
    for placed, event, changed in later:
        if event.stamp is not None:
            judge(state, placed, event, event.stamp)
        elif event.document is None or event.action is Action.DELETE:
            move(state, placed, None)
        else:
            move(state, placed, merged(state.document, event.document, changed or ()) if changed is not None else event.document)
