"""The record of calls: which caller did what to which topic, with which outcome, as lines of fields.

Each line has ``ts``, ``level``, ``logger`` (``calls``) and ``msg`` (``call``, or ``change`` for a change of a batch), then as many
of the following fields as apply:

==============  ===================================================================================================================
``call``        the method
``ms``          milliseconds from the arrival of the call or change to its outcome
``outcome``     of a change its outcome (``APPLIED``, ...), of another call ``OK``; of a failed one the name of the status code;
                ``GIVEN_UP``: the caller went away before there was an outcome
``reason``      the reason of the error
``principal``   the verified principal; ``way``: how it was verified; ``speaks_for``: for whom a proxy made the call
``actor``       the actor that the request named, where that is another name
``topic``       the topic that was changed or read, with ``scope``; ``namespace``: the namespace that was read as a whole
``request_id``  the id of a change; ``dry_run``: the change was validated only
``changes``     of a batch: how many of its changes had their outcome
==============  ===================================================================================================================

A line contains nothing of a document, and no credentials. A call does not wait for its line: a thread writes it soon after. The number of
lines that wait is bounded; lines beyond the bound, or that can't be written, are counted, and the count is written as a line of its own
(``not recorded``) as soon as that is possible. Calls of strangers are counted in the same way beyond ``MOST_STRANGERS`` in a second: those
that are refused as UNAUTHENTICATED, and, where callers are authenticated, those without credentials, such as health checks.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from json.encoder import encode_basestring_ascii
from typing import NamedTuple

from ..access import Caller, Way
from ..config import CallRecordConfig, LogFormat, Recorded
from ..core.chains.request import Outcome, Request, Result
from ..core.errors import Kind, PolicyError
from ..core.names import Scope
from ..lines import STANDARD_ERROR, UnwrittenError, line_maker
from ..lines.formats import logfmt_value, moment
from .calls import CHANGES, Call
from .recordfile import RecordFile

_LOG = logging.getLogger(__name__)
MOST = 50_000
"""The most lines that may wait to be written."""
MOST_STRANGERS = 100
"""The most calls of strangers that are recorded in a second, so that callers without credentials can't fill the disk."""
_GATHER_SECONDS = 0.1
"""Seconds for which lines are gathered before they are written together."""
_CLOSE_SECONDS = 2.0
_LONGEST = 300
"""The most characters that are recorded of a name as the caller sent it."""
_SCOPES = ("", *(scope.name for scope in Scope))
_OUTCOMES: dict[Outcome | None, str] = {None: "OK", **{outcome: outcome.name for outcome in Outcome}}


class _Change(NamedTuple):
    """What is recorded of a change. The ``Request``, with its document, must not be kept in memory while lines wait for a disk."""

    claimed: str
    topic: str
    scope: Scope
    request_id: str
    dry_run: bool


class _Noted(NamedTuple):
    """A call, or a change of a batch, that has ended: everything that its line is made of."""

    at: float
    seconds: float
    what: str
    method: str
    caller: Caller
    target: str
    change: _Change | None
    outcome: Outcome | None
    error: PolicyError | None
    code: str
    given_up: bool
    changes: int


class Journal:
    """Records calls and the changes of batches (``calls.Observer``, ``calls.ChangeObserver``).

    It belongs to one event loop, and has a thread that writes.
    """

    def __init__(self, config: CallRecordConfig, form: LogFormat, *, authenticated: bool = False) -> None:
        """Opens the file, and starts the thread.

        Args:
            config: which calls are recorded, and where.
            form: the format of the log's lines.
            authenticated: whether callers are authenticated, so that those without credentials are strangers.

        Raises:
            OSError: the file can't be opened.
        """
        self._overflowed = 0
        """How many were beyond ``MOST`` or ``MOST_STRANGERS``. Only the event loop changes it."""
        self._unwritten = 0
        """How many could not be written. Only the thread changes it."""
        self._strangers = (0, 0)
        """A second by the monotonic clock, and how many calls of strangers ended in it."""
        self._authenticated = authenticated
        self._all = config.which is Recorded.ALL
        self._line, self._writing = line_maker(form), _Writing(form)
        self._file = RecordFile(config.path) if config.path is not None else None
        self._write: Callable[[bytes], None] = self._file.write if self._file is not None else STANDARD_ERROR.put
        self._waiting: deque[_Noted] = deque()
        self._some = threading.Event()
        self._ending = False
        self._told = 0
        self._troubled = False
        self._thread = threading.Thread(target=self._run, name="record of calls", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """How many calls and changes were not recorded."""
        return self._overflowed + self._unwritten

    def ended(self, call: Call) -> None:
        """Records a call that has ended, unless only changes are recorded and it is none."""
        if self._all or call.method in CHANGES:
            if self._is_strangers(call) and self._is_beyond():
                self._overflowed += 1
                return
            self._note(
                _Noted(
                    time.time(),
                    time.perf_counter() - call.started,
                    "call",
                    call.method,
                    call.caller,
                    call.target,
                    _change(call.request, call.caller),
                    call.outcome,
                    call.error,
                    call.code,
                    call.given_up,
                    call.changes,
                )
            )

    def changed(self, method: str, caller: Caller, request: Request | None, answer: Result | PolicyError | None, seconds: float) -> None:
        """Records a change of a batch (see ``calls.ChangeObserver.changed``)."""
        error = answer if isinstance(answer, PolicyError) else None
        outcome, given_up = answer.outcome if isinstance(answer, Result) else None, answer is None
        self._note(_Noted(time.time(), seconds, "change", method, caller, "", _change(request, caller), outcome, error, "", given_up, 0))

    def close(self) -> None:
        """Writes what waits and ends the thread, in at most ``_CLOSE_SECONDS``. It blocks meanwhile."""
        self._ending = True
        self._some.set()
        self._thread.join(_CLOSE_SECONDS)

    def _is_strangers(self, call: Call) -> bool:
        if call.error is not None and call.error.kind is Kind.UNAUTHENTICATED:
            return True
        return self._authenticated and call.caller.way is Way.NONE

    def _is_beyond(self) -> bool:
        """Counts one more call of a stranger, and returns whether it is beyond ``MOST_STRANGERS`` in this second."""
        second = int(time.monotonic())
        self._strangers = (second, self._strangers[1] + 1 if self._strangers[0] == second else 1)
        return self._strangers[1] > MOST_STRANGERS

    def _note(self, noted: _Noted) -> None:
        waiting = self._waiting
        if len(waiting) >= MOST:
            self._overflowed += 1
            return
        waiting.append(noted)
        if len(waiting) == 1:
            self._some.set()

    def _run(self) -> None:
        while not (self._ending and not self._waiting):
            self._some.wait()
            if not self._ending:
                time.sleep(_GATHER_SECONDS)
            self._some.clear()
            self._record()
            if self._waiting:  # lines that were added meanwhile were not the first, so they did not set the event
                self._some.set()
        if self._file is not None:
            self._file.close()

    def _record(self) -> None:
        """Writes the lines that wait now, and a line for those that were dropped."""
        lines, waiting = [], self._waiting
        for _ in range(len(waiting)):
            try:
                lines.append(self._writing.line(waiting.popleft()))
            except Exception:  # noqa: BLE001 (whatever is wrong with one, the others are recorded)
                self._unwritten += 1
                _LOG.exception("a call could not be recorded")
        count = len(lines)
        if (dropped := self.dropped) > self._told:
            missing = {"ts": moment(time.time()), "level": "error", "logger": "calls", "msg": "not recorded", "calls": dropped - self._told}
            lines.append(self._line(missing))
        if not lines:
            return
        try:
            self._write(("\n".join(lines) + "\n").encode(errors="backslashreplace"))
        except OSError as error:
            self._unwritten += count - min(count, error.lines if isinstance(error, UnwrittenError) else 0)
            if not self._troubled:
                self._troubled = True
                _LOG.error("the record of calls can't be written: %s", error.strerror or error)
            return
        self._told = max(self._told, dropped)
        if self._troubled:
            self._troubled = False
            _LOG.warning("the record of calls can be written again; %d calls are missing in it", dropped)


class _Writing:
    """Formats lines. They are the same as those of ``lines.line_maker``, at a quarter of the cost."""

    def __init__(self, form: LogFormat) -> None:
        """``form``: JSON or logfmt."""
        json = form is LogFormat.JSON
        self._quote: Callable[[str], str] = encode_basestring_ascii if json else logfmt_value
        self._begin, self._end, self._yes = ('{"ts":"', "}", "true") if json else ("ts=", "", "true")
        self._level = '","level":"info","logger":"calls","msg":"' if json else " level=info logger=calls msg="
        self._call = '","call":' if json else " call="
        names = "ms outcome reason principal way speaks_for actor topic scope namespace request_id dry_run changes"
        self._keys = {name: f',"{name}":' if json else f" {name}=" for name in names.split()}

    def line(self, noted: _Noted) -> str:
        """Returns the line of a call or a change, without its end."""
        key, quote = self._keys, self._quote
        text = (
            f"{self._begin}{moment(noted.at)}{self._level}{noted.what}{self._call}{quote(noted.method)}"
            f"{key['ms']}{noted.seconds * 1000:.1f}{key['outcome']}{quote(_outcome(noted))}"
        )
        if noted.error is not None:
            text += key["reason"] + quote(noted.error.reason)
        caller, change = noted.caller, noted.change
        if caller.principal:
            text += key["principal"] + quote(caller.principal) + key["way"] + quote(caller.way.value)
            if caller.speaks_for:
                text += key["speaks_for"] + quote(caller.speaks_for)
        if change is not None:
            if change.claimed:
                text += key["actor"] + quote(change.claimed)
            scope = _SCOPES[change.scope]
            text += f"{key['topic']}{quote(change.topic)}{key['scope']}{quote(scope)}{key['request_id']}{quote(change.request_id)}"
            if change.dry_run:
                text += key["dry_run"] + self._yes
        elif noted.target:
            text += key["namespace" if noted.target.count("/") == 1 else "topic"] + quote(noted.target[:_LONGEST])
        if noted.changes:
            text += f"{key['changes']}{noted.changes}"
        return text + self._end


def _change(request: Request | None, caller: Caller) -> _Change | None:
    if request is None:
        return None
    claimed = request.claimed if request.principal or caller.principal else request.actor
    return _Change(claimed, request.key.topic, request.key.scope, request.request_id, request.validate_only)


def _outcome(noted: _Noted) -> str:
    if noted.error is not None:
        return noted.error.kind.value
    if noted.code:
        return noted.code
    if noted.given_up:
        return "GIVEN_UP"
    return _OUTCOMES[noted.outcome]
