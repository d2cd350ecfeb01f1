"""The updates of one namespace, from their arrival to their answers.

Where a log has one writer at a time, updates wait until it is known which process that is: this process then takes them, or names the
other.

A request has only *arrived* while the view does not answer yet, or the writer is not known; then the sequencer has it, without an event at
first. If its time is over by then, or the namespace is closed, nothing was done. Once the log has its event, or may have, the answer is
``OUTCOME_UNKNOWN`` then, and a repeat with the same id gets the right one.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from time import perf_counter

from ..core.chains.request import Request, Result, not_confirmed, not_in_time, nothing_is_written, unknown_outcome
from ..core.chains.sequencer import Append, Sequencer, Settled
from ..core.errors import Kind, PolicyError
from ..core.fold.fold import Folded, KeyState
from ..core.policies.documents import Document
from ..core.policies.events import Event, Placed
from ..core.reading.view import View
from ..core.reasons import LogState
from ..logs.change_log import Leadership, LogError, NamespaceLog, NotLeader
from .common import Common, Serving
from .progress import Progress
from .repairs import RepairQueue, Repairs

_LOG = logging.getLogger(__name__)
_GRAIN = 0.1
"""How late a deadline may be noticed, as a fraction of the time that a request has."""
_NOT_KNOWN = Leadership(False)


class Updates:
    """The requests of one namespace that have no answer yet."""

    def __init__(self, name: str, common: Common, queue: RepairQueue, chance: random.Random) -> None:
        limits = common.limits
        self._name = name
        self._common = common
        self._loop = asyncio.get_running_loop()
        self._seconds = limits.update_timeout_seconds
        self.open: OrderedDict[Request, float] = OrderedDict()
        """The requests that have no answer yet, and when their time is over, the oldest first: all have the same time."""
        self._timer: asyncio.TimerHandle | None = None
        self.last_used = self._loop.time()
        """When the namespace was used last, in seconds of the loop's clock."""
        self.arrivals: dict[Request, None] = {}
        """The requests that have only arrived, in order."""
        self.serving = Serving()
        """The log that serves, which repairs use too."""
        self._closed: PolicyError | None = None
        self.sequencer = Sequencer(
            uuid.UUID(int=chance.getrandbits(128), version=4).hex[:20],
            self.shared,
            most_in_flight=limits.max_in_flight_per_key,
        )
        self.progress = Progress(name, common, self._confirmed)
        """How far the view has come."""
        self.repairs = Repairs(name, common, queue, self.serving, self.sequencer, chance)
        """The repairs that are due."""

    # --- requests -------------------------------------------------------------------------------------------------

    def submit(self, request: Request, on_answer: Callable[[Request, Result | PolicyError], None]) -> bool:
        """Applies an update or a delete, and reports the answer once: when the event's position in the log is known, or in time.

        Besides the sequencer's own errors it reports: UNAVAILABLE when the log can't be reached, or the namespace is closed and nothing was
        sent; DEADLINE_EXCEEDED (OUTCOME_UNKNOWN) when the event's position is not known in time, or not before the namespace is closed;
        UNAVAILABLE (NOT_APPENDED) when there seems to be nothing to write, and the log did not say where it ends; UNAVAILABLE (NOT_LEADER,
        with the leader's address if it is known) when another process writes the log; FAILED_PRECONDITION (READ_ONLY); RESOURCE_EXHAUSTED
        when it would make a key and there is no room for it.

        ``on_answer`` may be called before this returns; it must return soon and must not raise. Returns whether the request waits until the
        namespace is loaded.
        """
        request.began, request.on_answer = perf_counter(), on_answer
        self.open[request] = self._loop.time() + self._seconds
        common = self._common
        error = (common.readiness.refuses_changes() if common.readiness.problem is not None else None) or self._closed
        if error is not None:
            self._settle(request, error)
        elif common.read_only and not request.validate_only:
            self._settle(request, nothing_is_written(self._name))
        elif self.serving.log is not None:
            self._pass_on(request)
        else:
            self.arrivals[request] = None
        if self.open and self._timer is None:
            self._timer = self._loop.call_later(self._seconds * _GRAIN, self._look)
        return self.serving.log is None and request in self.arrivals

    def _settle(self, request: Request, answer: Result | PolicyError) -> None:
        """Reports the answer, once."""
        if self.open.pop(request, None) is None:
            return
        self.last_used = self._loop.time()
        self._common.activity.updated(request, answer)
        try:
            if request.on_answer is not None:
                request.on_answer(request, answer)
        except Exception:  # noqa: BLE001 (others wait for their answers)
            _LOG.exception("%s: delivering an answer failed", self._name)

    def give_up(self, request: Request) -> None:
        """Forgets a request whose caller does not wait for its answer any more."""
        if self.open.pop(request, None) is not None:
            self._withdraw(request)

    def answer_now(self, request: Request, error: PolicyError) -> None:
        """Answers a request whose caller can't wait longer: with ``error`` if it certainly is not applied, else with an unknown outcome."""
        if request in self.open:
            self._settle(request, error if self._withdraw(request) else unknown_outcome(request.request_id))

    def turn_away(self, error: PolicyError) -> None:
        """Answers the requests that have only arrived with an error: nothing was done for them."""
        arrivals, self.arrivals = self.arrivals, {}
        for request in arrivals:
            self._settle(request, error)

    def abandon(self, error: PolicyError) -> None:
        """Answers all requests with an error, and forgets repairs: the log is gone for good."""
        self.sequencer.abandon(error)
        self._perform()
        self.turn_away(error)
        self.repairs.forget()

    def end(self, error: PolicyError) -> None:
        """Refuses all requests from now on, and those that have only arrived. Events that are still read make no repair due."""
        self._closed = error
        self.pause()
        self.turn_away(error)
        self.repairs.forget()

    def close(self, error: PolicyError) -> None:
        """Answers all requests, as nothing more is read from the log: with the error if nothing was sent, else with an unknown outcome."""
        if self._timer is not None:
            self._timer.cancel()
        left = list(self.open)
        for request in left:
            request.given_up = True  # all of them first: the sequencer withdraws a request only if its repeats are given up too
        for request in left:
            self.answer_now(request, error)
        self.sequencer.abandon(error)
        self._perform()
        self.sequencer.view = None

    # --- reports of the log ---------------------------------------------------------------------------------------

    def folded(self, placed: Placed, event: Event, folded: Folded, before: Document | None, state: KeyState) -> None:
        """Takes an event that was folded into the view that answers. ``state``: the fold's state after it."""
        self.sequencer.folded(event, folded, before, state)
        if self.sequencer.effects:
            self._perform()
        if state.repair_due or self.repairs.due:
            self.repairs.consider(event.key, state, placed)

    def append_failed(self, event: Event, state: KeyState | None, error: LogError) -> None:
        """Deals with an event of ours that was not acknowledged. ``state``: the fold's present state of its key."""
        self.sequencer.failed(event, error, error.outcome_unknown)
        self._perform()
        self.repairs.append_failed(event, state, error)

    def serve(self, log: NamespaceLog, view: View) -> None:
        """Goes on with a view that answers from now on, and passes the requests on that have arrived."""
        self.serving.log, self.sequencer.view = log, view
        self.sequencer.reopened()
        self._perform()
        self._pass_on_arrivals()
        self.repairs.serve()

    def pause(self) -> None:
        """Has requests and repairs wait until a log serves again."""
        self.serving.log = None
        self.progress.stop()
        self.repairs.pause()

    def led(self) -> None:
        """Notes that the writer of the log may have changed, and passes the requests on that have arrived."""
        if self.serving.log is not None:
            self._pass_on_arrivals()
            self.repairs.led()

    # --- who may append -------------------------------------------------------------------------------------------

    @property
    def led_elsewhere(self) -> bool:
        """Whether it is known that another process writes the log."""
        leadership = self._leadership
        return not leadership.leads and leadership.leader != ""

    @property
    def _leadership(self) -> Leadership:
        """Which process may append, as far as is known; nothing is known of a log that is not open."""
        return self.serving.log.leadership if self.serving.log is not None else _NOT_KNOWN

    def _pass_on(self, request: Request) -> None:
        """Hands a request to the sequencer if it only reads or this process may append; else has it wait, or refuses it if another leads.

        A failure of one request concerns no other.
        """
        log, view = self.serving.log, self.sequencer.view
        assert log is not None and view is not None, "it serves"
        try:
            leadership = log.leadership
            if leadership.leads or request.validate_only:  # a dry run only reads
                state = view.state(request.key)
                if state is None and request.change is not None and not request.validate_only and not self._common.has_room():
                    self._settle(request, self._common.no_room(request.key.topic))
                    return
                self.sequencer.add(request, state)
                self._perform()
                return
            log.contend()
            if leadership.leader:
                self._settle(request, NotLeader(self._name, leadership))
            else:
                self.arrivals[request] = None
        except Exception:  # noqa: BLE001 (others go on)
            _LOG.exception("%s: an update failed", self._name)
            self._withdraw(request)
            self._settle(request, unknown_outcome(request.request_id))  # its event may be in the log

    def _pass_on_arrivals(self) -> None:
        arrivals, self.arrivals = self.arrivals, {}
        for request in arrivals:
            self._pass_on(request)

    # --- effects --------------------------------------------------------------------------------------------------

    def _perform(self) -> None:
        """Carries out the sequencer's effects, and those that they lead to."""
        sequencer = self.sequencer
        effects = sequencer.effects
        while effects:
            effect = effects.popleft()
            if isinstance(effect, Settled):
                self._settle(effect.request, effect.answer)
            elif isinstance(effect, Append):
                event = effect.event
                if effect.request is not None:
                    effect.request.appended_at = perf_counter()
                if self._closed is not None:  # the event is not sent
                    sequencer.failed(event, self._closed, False)
                elif self.serving.log is not None:
                    try:
                        self.serving.log.append(event)
                    except LogError as error:
                        if error.kind is not Kind.UNAVAILABLE or error.state is LogState.APPEND_FAILED or isinstance(error, NotLeader):
                            sequencer.failed(event, error, error.outcome_unknown)
                        # else the log is lost, and will report so; it is then opened anew
                # else the log is being opened anew, and what is in flight is appended once it serves
            else:
                self.progress.confirm(effect.request)

    def _confirmed(self, requests: Sequence[Request], why_not: str) -> None:
        self.sequencer.confirmed(requests, why_not)
        self._perform()

    def shared(self) -> bool:
        """Returns whether others may have written something that the view has not come to."""
        return not self._common.context.sole_writer and (self.serving.log is None or self.serving.log.shared)

    # --- the time of a request ------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Answers the requests whose time is over. One timer serves all."""
        self._timer = None
        now = self._loop.time()
        while self.open:
            request, over_at = next(iter(self.open.items()))
            if over_at > now:
                self._timer = self._loop.call_later(self._seconds * _GRAIN, self._look)
                return
            try:
                self._expire(request)
            except Exception:  # noqa: BLE001 (the others' time goes on)
                _LOG.exception("a request whose time was over could not be answered")
                self.open.pop(request, None)

    def _expire(self, request: Request) -> None:
        if not self._withdraw(request):
            self._settle(request, unknown_outcome(request.request_id))
        elif request.asked_number and not request.confirmed:
            self._settle(request, not_confirmed(request, "the log was not read up to its end in time"))
        elif self.serving.log is not None and not self.serving.leads:
            self._settle(request, NotLeader(self._name, self._leadership))
        else:
            self._settle(request, not_in_time(request, read=self.serving.log is not None))

    def _withdraw(self, request: Request) -> bool:
        """Withdraws a request that is not waited for any more. Returns whether it is certain not to be applied."""
        if request in self.arrivals:
            del self.arrivals[request]
            return True
        certain = self.sequencer.withdraw(request)
        self._perform()
        return certain
