"""Validators: pure functions of what clients saw, one for each promise, each with an error class of its own.

They do not depend on the source of the records: the simulation makes them, and so may a load harness that ran against a real service.

- ``records``: the records. ``documents``: documents as flat mappings, and the effects of updates, without the service's own code.
- ``timeline``: the true history of each policy key, from the log, with which all records are compared.
- ``updates``, ``reads``, ``watches``: the validators. ``judge`` runs all of them.
- ``outcomes``: further promises if there is no other writer and every client repeats until it has an answer. ``links``: what answers alone
  prove.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .outcomes import answers_are_one_chain, unknown_outcomes_settled
from .reads import at_least, converged, one_truth, read_your_writes, versions_only_grow
from .records import Broken, History
from .timeline import Timeline
from .updates import (
    answers_know_what_was_acknowledged,
    answers_tell_the_truth,
    applied_at_most_once,
    batches_keep_their_order,
    conditions_hold,
    failures_leave_no_trace,
    no_lost_update,
    real_time_order,
    repeats_get_the_first_answer,
)
from .watches import (
    acknowledged_is_covered,
    one_synced,
    watch_misses_nothing,
    watch_reads_writes,
    watch_repeats_nothing,
)

Validator = Callable[[History, Timeline], Iterator[Broken]]

VALIDATORS: tuple[Validator, ...] = (
    no_lost_update,
    answers_tell_the_truth,
    real_time_order,
    answers_know_what_was_acknowledged,
    batches_keep_their_order,
    repeats_get_the_first_answer,
    applied_at_most_once,
    failures_leave_no_trace,
    conditions_hold,
    one_truth,
    read_your_writes,
    at_least,
    versions_only_grow,
    converged,
    one_synced,
    watch_misses_nothing,
    watch_repeats_nothing,
    watch_reads_writes,
    acknowledged_is_covered,
)

ALONE: tuple[Validator, ...] = (answers_are_one_chain, unknown_outcomes_settled)
"""Further validators, for runs without other writers in which every client repeats a request until it has an answer."""


class Judgement(NamedTuple):
    """The judgement of a history."""

    broken: list[Broken]
    """Every broken promise."""
    allowed: Counter[str]
    """What was allowed only by a limit that docs/writers.md names, and how often (methods of ``Timeline``)."""


def judge(history: History) -> Judgement:
    """Checks a history against every promise."""
    timeline = Timeline(history)
    return Judgement([broken for validate in VALIDATORS for broken in validate(history, timeline)], timeline.allowed)
