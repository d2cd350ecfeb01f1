"""Promises about updates."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate, chain, pairwise

from .documents import Edit
from .records import ABSENT, NEVER, Answer, Broken, Failure, Head, History, Key, Outcome, Read, Update
from .timeline import Timeline


class LostUpdate(Broken):
    """An acknowledged change is not in the log at its version, or a change was undone without a request to do so."""


class WrongAnswer(Broken):
    """An answer contradicts the actual outcome of its request."""


class OutOfOrder(Broken):
    """A request that was sent after another one's answer was applied before it."""


class BatchOutOfOrder(Broken):
    """Requests of one batch and one policy key were not applied in the batch's order."""


class RepeatDiffers(Broken):
    """The repeat of an applied request got another answer."""


class AppliedTwice(Broken):
    """A request was applied more than once although its repeats were in time."""


class StaleAnswer(Broken):
    """A sidecar answered that an update writes nothing without knowing a change that had been acknowledged before the update was sent."""


class FailedButApplied(Broken):
    """A request was refused, but is in the log."""


class ConditionIgnored(Broken):
    """A condition of an update (its precondition, skip_if_absent) was ignored, or reported as violated although it held."""


def no_lost_update(history: History, timeline: Timeline) -> Iterator[LostUpdate]:
    """Along a key's changes each version is the previous version of the next one, and each change has exactly the requested effect."""
    for key in timeline.keys:
        before, version, document = None, ABSENT, None
        for head in timeline.heads[key]:
            if head.previous not in (version, "") and before is not None and not _began_anew(timeline, before, head):
                yield LostUpdate(f"{key}: version {head.version} follows {head.previous} instead of {version}", head)
            edit = timeline.edit(head)
            if edit is None and not history.in_place:
                yield LostUpdate(f"{key}: no update made version {head.version}", head)
            elif edit is not None and (expected := edit.after(document)) != head.document and not _brought_back(timeline, edit, head):
                yield LostUpdate(
                    f"{key}: version {head.version} is not what the update makes", edit, f"before {document}", head, f"not {expected}"
                )
            before, version, document = head, head.version, head.document
    for update, answer in timeline.acknowledged():
        if timeline.at(update.key, answer.version) is None:
            yield LostUpdate(f"{update.key}: version {answer.version} was acknowledged but is not in the log", update)


def _began_anew(timeline: Timeline, before: Head, head: Head) -> bool:
    """Whether the history of a deleted key starts over with a head because the log had forgotten the key."""
    return before.document is None and head.previous == ABSENT and timeline.taken_along("keys that began anew", before, head.at)


def _brought_back(timeline: Timeline, edit: Edit, head: Head) -> bool:
    """Whether a head has another writer's change, and beside it what the writer's document had from before a forgotten deletion."""
    return edit.after(head.document) == head.document and timeline.had_not_seen_a_forgotten_deletion(head)


def answers_tell_the_truth(history: History, timeline: Timeline) -> Iterator[WrongAnswer]:
    """APPLIED has the version of the request's own change; UNCHANGED and SKIPPED are right for the version that they have."""
    for update in history.updates:
        answer = update.answer
        if isinstance(answer, Failure):
            if answer.code == "INVALID_ARGUMENT" and not (update.edit.needs or answer.reason == "REQUEST_ID_REUSED"):
                yield WrongAnswer(f"{update.key}: a valid request was refused", update)
            elif answer.code == "INTERNAL":
                yield WrongAnswer(f"{update.key}: the service failed on a request", update)
        elif answer is not None:
            problem = _problem(update, answer, history, timeline)
            if problem:
                yield WrongAnswer(f"{update.key}: {problem}", update)


def _problem(update: Update, answer: Answer, history: History, timeline: Timeline) -> str:
    if update.validate_only:  # the answer assumes that everything in flight succeeds
        return "a dry run was answered as applied" if answer.outcome is Outcome.APPLIED and not answer.replayed else ""
    if answer.outcome is Outcome.WOULD_APPLY:
        return "it was answered as a dry run"
    if answer.outcome is Outcome.APPLIED:
        return _problem_if_applied(update, answer, history, timeline)
    if answer.version != answer.previous:
        return "nothing was written, but the versions differ"
    head = timeline.at(update.key, answer.version)
    before = head.document if head is not None else None
    if answer.outcome is Outcome.SKIPPED:
        return "" if before is None and update.skip_if_absent else f"it was skipped, but there was {before}"
    if update.edit.changes(before):
        return f"it would have changed {before}"
    return "" if (answer.document or None) == (before or None) else f"the document of {answer.version} is {before}"


def _problem_if_applied(update: Update, answer: Answer, history: History, timeline: Timeline) -> str:
    if answer.replayed and not answer.version:
        return ""  # the log has forgotten the version
    head = timeline.at(update.key, answer.version)
    if head is None or head.request_id != update.request_id:
        return f"version {answer.version} was not made by this request but by {head}"
    acceptable = answer.previous or answer.replayed or any(at <= update.answered for at in history.compactions)
    if not (acceptable and timeline.may_precede(head, answer.previous)):
        return f"it was applied to {head.previous}, not to {answer.previous}"
    right = answer.document == head.document or (answer.document is None and (answer.replayed or update.edit.delete))
    if not right and not (update.edit.after(answer.document) == answer.document and timeline.was_a_guess(head)):
        return f"the document of {answer.version} is {head.document}"
    return ""


def real_time_order(history: History, timeline: Timeline) -> Iterator[OutOfOrder]:
    """A request that was acknowledged before another one was sent has the smaller version, whichever sidecars they were sent to."""
    of_key: defaultdict[Key, list[tuple[float, float, str, Update]]] = defaultdict(list)
    for (key, request_id), attempts in timeline.attempts.items():
        made = timeline.by_request.get((key, request_id))
        if made:
            times = (each.answered for each in attempts if isinstance(each.answer, Answer) and each.answer.outcome is Outcome.APPLIED)
            answered = min(times, default=NEVER)  # a repeat of an update that had nothing to change is computed again
            of_key[key].append((min(each.invoked for each in attempts), answered, made[0].version, attempts[0]))
    for key, requests in of_key.items():
        open_ones: list[tuple[float, str, Update]] = []
        newest, holder = "", None
        for invoked, answered, version, update in sorted(requests, key=lambda each: each[0]):
            while open_ones and open_ones[0][0] < invoked:
                _, other, whose = heapq.heappop(open_ones)
                if other > newest:
                    newest, holder = other, whose
            if version <= newest:
                yield OutOfOrder(f"{key}: version {version} was requested after {newest} was acknowledged", holder, update)
            heapq.heappush(open_ones, (answered, version, update))


def answers_know_what_was_acknowledged(history: History, timeline: Timeline) -> Iterator[StaleAnswer]:
    """An answer that writes nothing knows every change that was acknowledged before its request was sent."""
    acknowledged: defaultdict[Key, list[tuple[float, str]]] = defaultdict(list)
    for update, answer in timeline.acknowledged():
        acknowledged[update.key].append((update.answered, answer.version))
    for each in acknowledged.values():
        each.sort()
        each[:] = zip([at for at, _ in each], accumulate((version for _, version in each), max), strict=True)
    for update in history.updates if not history.led else ():
        given = update.answer
        if not isinstance(given, Answer) or given.replayed or (given.outcome is Outcome.APPLIED and not update.validate_only):
            continue
        attempts = timeline.attempts.get((update.key, update.request_id), ()) if not update.validate_only else ()
        refused = [each.answered for each in attempts if isinstance(each.answer, Failure) and each.answer.certain]
        since = max((at for at in refused if at <= update.invoked), default=0.0)  # a repeat after a certain refusal is a new request
        sent = min((each.invoked for each in attempts if each.invoked >= since), default=update.invoked)
        known = acknowledged[update.key]
        newest = known[index - 1][1] if (index := bisect_left(known, (sent, ""))) else ""
        head = timeline.at(update.key, given.version)
        if timeline.stands_for(update.key, given.version, head.document if head is not None else None, update.answered) < newest:
            yield StaleAnswer(f"{update.key}: {newest} was acknowledged before, and the answer is as of {given.version}", update)


def batches_keep_their_order(history: History, timeline: Timeline) -> Iterator[BatchOutOfOrder]:
    """Requests of one batch that touch the same key are applied in the order in which they stand in it."""
    sent: defaultdict[tuple[str, str, Key], list[Update]] = defaultdict(list)
    for update in history.updates:
        answer = update.answer
        if (
            update.batch
            and isinstance(answer, Answer)
            and answer.outcome is Outcome.APPLIED
            and not (answer.replayed or update.validate_only)
        ):
            sent[update.client, update.batch, update.key].append(update)
    for updates in sent.values():
        updates.sort(key=lambda update: update.sequence)
        for before, after in pairwise(updates):
            if _version(before) >= _version(after):
                yield BatchOutOfOrder(f"{after.key}: applied against the batch's order", before, after)


def _version(update: Update) -> str:
    assert isinstance(update.answer, Answer)
    return update.answer.version


def repeats_get_the_first_answer(history: History, timeline: Timeline) -> Iterator[RepeatDiffers]:
    """A repeat in time of an applied request is answered with the same version, and never with a conflict with itself."""
    for (key, request_id), attempts in timeline.attempts.items():
        made = timeline.by_request.get((key, request_id))
        if not made or len(attempts) < 2:
            continue
        first = made[0]
        for update in attempts:
            answer = update.answer
            known = update.invoked > first.at and timeline.remembered(first, update.answered)
            if isinstance(answer, Answer) and answer.outcome is Outcome.APPLIED:
                applied = next((head for head in made if head.version == answer.version), first)
                if answer.version not in (first.version, "") and known and not _is_forgotten(timeline, first, update.answered):
                    yield RepeatDiffers(f"{key}: the repeat of {request_id} is not {first.version}", update)
                elif not timeline.may_precede(applied, answer.previous):
                    yield RepeatDiffers(f"{key}: the repeat of {request_id} was applied to {applied.previous}", update)
            elif not known:
                continue
            elif isinstance(answer, Answer) and _had_seen(history, update, first) and not _is_forgotten(timeline, first, update.answered):
                yield RepeatDiffers(f"{key}: {request_id} was applied as {first.version}, its repeat was not answered so", update)
            elif isinstance(answer, Failure) and answer.code == "ABORTED" and answer.reason == "PRECONDITION_FAILED":
                if _is_forgotten(timeline, first, update.answered):
                    continue
                yield RepeatDiffers(f"{key}: {request_id} was applied as {first.version}, its repeat conflicts with itself", update)


def _is_forgotten(timeline: Timeline, first: Head, answered: float) -> bool:
    """Whether the request that made a head may be unknown when its repeat is answered, because its key was deleted and forgotten."""
    return timeline.taken_along("repeats answered anew", first, answered)


def applied_at_most_once(history: History, timeline: Timeline) -> Iterator[AppliedTwice]:
    """A request is applied at most once, however often it is sent, unless a repeat comes too late to be recognized."""
    for (key, request_id), made in timeline.by_request.items():
        for first, second in pairwise(made):
            if timeline.remembered(first, second.at) and not timeline.taken_along("requests applied again", first, second.at):
                yield AppliedTwice(f"{key}: {request_id} was applied twice", first, second)


def failures_leave_no_trace(history: History, timeline: Timeline) -> Iterator[FailedButApplied]:
    """A request that every attempt refused for certain is not in the log, nor is a dry run."""
    for (key, request_id), attempts in timeline.attempts.items():
        made = timeline.by_request.get((key, request_id))
        if made and all(isinstance(each.answer, Failure) and each.answer.certain for each in attempts):
            yield FailedButApplied(f"{key}: {request_id} was refused but applied", *attempts, made[0])
    for update in history.updates:
        if update.validate_only and (update.key, update.request_id) in timeline.by_request:
            yield FailedButApplied(f"{update.key}: a dry run was applied", update, timeline.by_request[update.key, update.request_id][0])


def conditions_hold(history: History, timeline: Timeline) -> Iterator[ConditionIgnored]:
    """Updates are applied if their conditions hold (its precondition, skip_if_absent), and only then."""
    for update in history.updates:
        answer = update.answer
        if isinstance(answer, Answer) and answer.outcome is Outcome.APPLIED and not update.validate_only:
            head = timeline.at(update.key, answer.version)
            if head is None:
                continue
            if not timeline.may_precede(head, update.demanded):
                yield ConditionIgnored(f"{update.key}: version {update.demanded} was demanded, but applied to {head.previous}", update)
            before = timeline.newest(update.key, head.previous)
            if update.must_be_absent and before is not None and before.document is not None:
                yield ConditionIgnored(f"{update.key}: applied although there was a document", update, head)
            if update.skip_if_absent and (before is None or before.document is None):
                yield ConditionIgnored(f"{update.key}: applied although there was no document", update, head)
        elif isinstance(answer, Failure) and answer.reason == "PRECONDITION_FAILED" and _needless(history, timeline, update):
            yield ConditionIgnored(f"{update.key}: it conflicted, but {update.demanded} was the version all the time", update)


def _needless(history: History, timeline: Timeline, update: Update) -> bool:
    """Whether a conflict is needless: the demanded version was the newest from the request to its answer, and the sidecar knew it."""
    head = timeline.at(update.key, update.demanded)
    if head is None:
        return False
    heads = timeline.heads[update.key]
    follower = next((each for each in heads if each.version > head.version), None)
    if not ((follower is None or follower.at > update.answered) and _had_seen(history, update, head)):
        return False
    return head.document is not None or not timeline.taken_along("demanded versions of absences that were conflicts", head, update.answered)


def _had_seen(history: History, update: Update, head: Head) -> bool:
    """Whether the sidecar of an update had answered with a head, or a newer one, before the update was sent."""

    def before(other: Update | Read) -> bool:
        return other.sidecar == update.sidecar and other.key == update.key and other.answered < update.invoked

    answers = (other.answer for other in history.updates if before(other))
    answered = (answer.version for answer in answers if isinstance(answer, Answer) and not answer.replayed)
    read = (read.version for read in history.reads if before(read))
    return any(version >= head.version for version in chain(answered, read))
