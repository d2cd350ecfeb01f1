"""Reports of runs: the story of one, line by line, and the sums of many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tests.validators.documents import Document, Edit
from tests.validators.records import NEVER, Answer, Bookmark, Change, Failure, Read, Status, Update, Watch
from topicpolicies_server.core.policies.events import Placed

from .profile import differences
from .run import Run
from .world import document_of, record_key


def story(run: Run) -> str:
    """Returns everything that happened, in the order of time, and the verdict."""
    lines = sorted(_lines(run), key=lambda line: line[0])
    body = [f"{at:9.4f}  {who:12}  {what}" for at, who, what in lines]
    head = f"{run.command}: {differences(run.profile)}"
    return "\n".join([head, *body, "", *verdict(run)])


def verdict(run: Run) -> list[str]:
    """Returns the broken promises of a run and the command that replays it; an empty list if there are none."""
    if not run.broken:
        return []
    return [*(f"{type(broken).__name__}: {broken}" for broken in run.broken), f"replay: {run.command}"]


def sums(counts: Counter[str]) -> str:
    """Returns the counters, one a line."""
    return "\n".join(f"{counts[what]:9,}  {what}" for what in sorted(counts) if counts[what])


def joins(counts: Counter[str], runs: int) -> str:
    """Returns how often sidecars had to believe late repairs, and what was lost; "" if repairs were never delayed."""
    if not counts["repairs paused or cut off"]:
        return ""
    late, lost = "joins between a late repair and a compaction", "of them, keys of which something was lost for good"
    orphaned = counts["keys of which nobody alive had seen everything"]
    summary = f"{counts[late]:,} {late}, in {counts[f'runs with {late}']:,} of {runs:,} runs"
    return f"{summary}; of {orphaned:,} keys nobody alive had seen everything, of {counts[lost]:,} of them something was lost"


def missing(counts: Counter[str], wanted: Sequence[str]) -> list[str]:
    """Returns the wanted counters that are zero."""
    return [what for what in wanted if not counts[what]]


def _lines(run: Run) -> Iterator[tuple[float, str, str]]:
    yield from run.trace
    history = run.history
    for update in history.updates:
        name = f"{update.client}->{update.sidecar}"
        yield update.invoked, name, f"sends {_request(update)}"
        if update.answered != NEVER:
            yield update.answered, name, f"gets {update.request_id[:6]} {_answer(update.answer)}"
    for read in history.reads:
        yield read.answered, f"{read.client}->{read.sidecar}", _read(read)
    for watch in history.watches:
        yield from _watch(watch)
    for at, placed in run.entries:
        yield at, "log", _entry(placed)


def _request(update: Update) -> str:
    words = [update.request_id[:6], str(update.key), _edit(update.edit)]
    words += [f"version {update.demanded}"] if update.demanded else []
    words += ["if there"] if update.skip_if_absent else []
    words += ["dry"] if update.validate_only else []
    words += [f"in {update.batch} #{update.sequence}"] if update.batch else []
    return " ".join(words)


def _answer(answer: Answer | Failure | None) -> str:
    if answer is None:
        return "no answer"
    if isinstance(answer, Failure):
        return f"{answer.code} {answer.reason} {answer.version}"
    return f"{answer.outcome.name} {answer.previous}->{answer.version}{' replayed' if answer.replayed else ''} {_document(answer.document)}"


def _read(read: Read) -> str:
    asked = f" at least {read.at_least}" if read.at_least else ""
    found = read.failure.reason if read.failure is not None else f"{read.version} {_document(read.document)}"
    return f"reads {read.key}{asked} since {read.invoked:.4f}: {found}"


def _watch(watch: Watch) -> Iterator[tuple[float, str, str]]:
    name = f"{watch.client}<-{watch.sidecar}"
    mode = "every" if watch.every else "latest"
    token = f" from {'|'.join(watch.token.positions)}" if watch.token is not None else ""
    topics = "" if watch.topics is None else f" {sorted(topic.rpartition('-')[2] for topic in watch.topics)}"
    yield watch.opened, name, f"watches {mode}{topics} {sorted(watch.scopes)}{token}"
    for message in watch.messages:
        if isinstance(message, Change):
            yield message.at, name, f"{message.key} {message.previous}->{message.version} {_document(message.document)}"
        elif isinstance(message, Bookmark):
            yield message.at, name, f"{'SYNCED' if message.synced else 'bookmark'} {'|'.join(message.positions)}"
        elif isinstance(message, Status):
            yield message.at, name, "FAILED" if message.failed else "LOADING"
    if watch.ended != NEVER:
        yield watch.ended, name, f"ends {watch.failure.reason if watch.failure is not None else ''}"


def _entry(placed: Placed) -> str:
    event = placed.event
    where = f"{placed.partition}:{placed.position} by {placed.producer}"
    if event is None:
        return f"{where}: {'unreadable' if placed.problem else 'announces that it leads'}"
    stamp = event.stamp
    what = f"{record_key(event.key)} {_document(document_of(event.document))}"
    if stamp is None:
        return f"{where}: {what} {event.action.name}"
    words = [stamp.kind.value, stamp.request_id[:6], ",".join(stamp.mask), f"base {stamp.base or '-'}"]
    words += [f"etag {stamp.etag}"] if stamp.etag is not None else []
    words += [f"restates {stamp.head_version}"] if stamp.head_version else []
    words += [f"seen {stamp.history.since or 'all'} to {stamp.history.upto}"] if stamp.history is not None else []
    words += [f"id {stamp.event_id[-8:]}"]
    return f"{where}: {what} {' '.join(words)}"


def _document(document: Document | None) -> str:
    if document is None:
        return "none"
    return "{" + " ".join(f"{_short(path)}={value}" for path, value in document.items() if value not in (-1, False)) + "}"


def _edit(edit: Edit) -> str:
    if edit.delete:
        return "delete"
    words = ["*"] if edit.whole else []
    words += [f"-{_short(path)}" for path in edit.clears]
    words += [f"{_short(path)}={value}" for path, value in edit.sets.items() if value not in (-1, False)]
    words += [f"{_short(path)}+{elements}" for path, elements in edit.adds.items()]
    words += [f"{_short(path)}-{elements}" for path, elements in edit.removes.items()]
    return " ".join(words)


def _short(path: str) -> str:
    """Returns the first letters of a path's words."""
    return ".".join("".join(word[0] for word in part.split("_")) for part in path.split("."))
