"""The worked tables in the docstrings of the fold's hardest modules show what the fold does."""

from __future__ import annotations

from collections.abc import Sequence

from tests.core.fold.script import KEY, RATE, SIZE, TTL, Script, join
from topicpolicies_server.core.fold import joining, overlap
from topicpolicies_server.core.fold.fold import FoldContext, restatement
from topicpolicies_server.core.policies.documents import Document
from topicpolicies_server.core.policies.events import Action, Event

MOST = "max_subscriptions_per_topic"
NAMES = {TTL: "ttl", RATE: "rate", SIZE: "size", MOST: "max"}


def shown(document: Document | None) -> str:
    """Returns a document as the tables write it."""
    return "none" if document is None else "{" + ", ".join(f"{NAMES[name]} {value.decode()}" for name, value in document.items()) + "}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Returns rows as the docstrings have them; the first row is the title."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    rule = "  ".join("=" * width for width in widths)
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])


def test_the_table_of_joining_shows_how_a_guess_is_corrected_by_a_repair() -> None:
    x = Script()
    y: Script | None = None
    rows = [("place", "event", "X, who has seen all of it", "Y, who joins after 4")]

    def described(script: Script | None) -> str:
        if script is None:
            return ""
        since = f", since {int(script.state.since)}" if script.state.since else ""
        return f"{shown(script.document)}{since}{', a repair is due' if script.due() else ''}"

    def note(event: str) -> None:
        rows.append((str(len(x.log)), event, described(x), described(y)))

    for document in ({TTL: b"1"}, {TTL: b"1", RATE: b"2"}, {TTL: b"1", SIZE: b"3"}, {SIZE: b"3"}, {SIZE: b"3", MOST: b"5"}):
        event = Event(KEY, Action.UPDATE, document)
        x.put(event)
        if y is not None:
            y.put(event)
        if len(x.log) == 4:
            y = join(x, last=1)
        note(f"broker {shown(document)}")
    assert y is not None
    repair = restatement(KEY, x.state, "repair")
    x.put(repair)
    y.put(repair)
    note("X's repair")
    assert table(rows) in (joining.__doc__ or "")


def test_the_table_of_overlap_shows_which_changes_overlapping_documents_make() -> None:
    script = Script(FoldContext(in_place=True))
    rows = [("place", "at", "a broker's document", "changes", "head", "owed", "repair")]
    began = script.now + 1
    for wait, document in (
        (1, {TTL: b"1"}),
        (100, {TTL: b"1", RATE: b"2", SIZE: b"3"}),
        (5, {TTL: b"1", RATE: b"2"}),
        (20, {TTL: b"1", RATE: b"2", SIZE: b"3", MOST: b"4"}),
        (2_000, {TTL: b"1", RATE: b"2", MOST: b"4"}),
    ):
        folded = script.write(document, wait=wait)
        changed = ", ".join(NAMES[name] for name in folded.settings) or "nothing"
        owed = script.state.owed.events if script.state.owed is not None else 0
        due = "due" if script.state.repair_due else ""
        rows.append(
            (str(len(script.log)), f"{script.now - began} ms", shown(document), changed, shown(script.document), str(owed or ""), due)
        )
    assert table(rows) in (overlap.__doc__ or "")
