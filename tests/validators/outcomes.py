"""Promises about requests without an answer, and what the answers alone prove if there is no other writer.

They hold if every client repeats a request, with the same id, until it knows its outcome.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from .links import Link, chain
from .records import Answer, Broken, Failure, History, Key
from .timeline import Timeline


class Unsettled(Broken):
    """No answer ever told the outcome of a request, or an answer contradicts the log."""


class BrokenChain(Broken):
    """The versions in the answers are not one chain."""


def unknown_outcomes_settled(history: History, timeline: Timeline) -> Iterator[Unsettled]:
    """A client that repeats a request whose answer was lost learns its outcome, which agrees with the log."""
    del history
    for (key, request_id), attempts in timeline.attempts.items():
        answers = [each.answer for each in attempts]
        acknowledgements = [each for each in answers if isinstance(each, Answer)]
        if not acknowledgements and not any(isinstance(each, Failure) and each.certain for each in answers):
            yield Unsettled(f"{key}: no answer tells the outcome of {request_id}", *attempts)
        made = timeline.by_request.get((key, request_id))
        if acknowledgements and made and all(each.version != head.version for each in acknowledgements if each.version for head in made):
            yield Unsettled(f"{key}: {request_id} is in the log as {made[0].version}, its answers have other versions", *acknowledgements)


def answers_are_one_chain(history: History, timeline: Timeline) -> Iterator[BrokenChain]:
    """According to the answers alone, each version of a key is the previous version of the next one."""
    del history
    links: defaultdict[Key, list[Link]] = defaultdict(list)
    for update, answer in timeline.acknowledged():
        links[update.key].append(Link(update.request_id, answer.previous, answer.version))
    for key, acknowledged in links.items():
        found = chain(acknowledged)
        for one, other in found.forks:
            yield BrokenChain(f"{key}: two changes were applied to version {one.previous}", one, other)
        for link in found.loose:
            yield BrokenChain(f"{key}: version {link.version} follows {link.previous}, which no answer has", link)
        for request_id in found.twice:
            yield BrokenChain(f"{key}: {request_id} was acknowledged with two versions")
