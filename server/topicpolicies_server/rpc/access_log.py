"""The access log: which caller did what to which topic, with which outcome, as lines of JSON. docs/operation.md has their fields.

Among a log of text the fields stand behind the message. A line contains nothing of a document, and no credentials. A call does not wait for
its line: a thread writes it. The number of lines that wait is bounded; lines beyond the bound, or that can't be written, are counted.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from time import perf_counter

from ..access import Caller
from ..config import AccessLogConfig, LogFormat
from ..core.chains.request import Outcome, Request
from ..core.errors import PolicyError
from ..ops.log import Json, Lines, Plain, in_json, to_standard_error, write_all
from .calls import CHANGES, Call

_LOG = logging.getLogger(__name__)
MOST = 50_000
_PAUSE_SECONDS = 0.05
_LONGEST = 300
_MODE = 0o600


class AccessLog:
    """Records calls, and the changes of batches (an observer of ``Calls``)."""

    def __init__(self, config: AccessLogConfig, form: LogFormat) -> None:
        """Opens the file. ``form``: that of the server's log, among whose lines those on standard error stand.

        Raises:
            OSError: the file can't be opened.
        """
        self._all = config.which == "all"
        self._file = _File(config.path) if config.path is not None else None
        self._lines = Lines(self._file.write if self._file is not None else to_standard_error, MOST, _PAUSE_SECONDS)
        self._lines.setFormatter(_Text() if form == "text" and self._file is None else Json())

    @property
    def lost(self) -> int:
        """How many calls and changes were not recorded."""
        return self._lines.lost + (self._file.unwritten if self._file is not None else 0)

    def ended(self, call: Call) -> None:
        """Records a call that has ended, unless only changes are recorded and it is none."""
        if not (self._all or call.method in CHANGES):
            return
        of_caller = _caller(call.caller)
        for change in call.results:
            answer = change.answer
            ended = "GIVEN_UP" if answer is None else answer if isinstance(answer, PolicyError) else Outcome(answer.outcome).name
            fields = _fields(call.method, change.seconds, ended)
            self._note("change", fields | of_caller | (_change(change.request, call.caller) if change.request is not None else {}))
        done = call.outcome.name if call.outcome is not None else "OK"
        ended = call.error or ("GIVEN_UP" if call.given_up else done)
        fields = _fields(call.method, perf_counter() - call.started, ended)
        fields |= of_caller
        if call.request is not None:
            fields |= _change(call.request, call.caller)
        elif call.target:
            fields["namespace" if call.target.count("/") == 1 else "topic"] = call.target[:_LONGEST]
        if call.results:
            fields["changes"] = sum(change.answer is not None for change in call.results)
        self._note("call", fields)

    def close(self) -> None:
        """Waits until the lines are written, for a few seconds at the most, and closes the file."""
        if self._lines.stop() and self._file is not None:
            self._file.close()

    def _note(self, what: str, fields: dict[str, object]) -> None:
        record = logging.LogRecord("calls", logging.INFO, "", 0, what, None, None)
        record.fields = fields
        self._lines.emit(record)


class _Text(Plain):
    """Lines of text as the server's log on standard error has them, with the fields as JSON behind the message."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the library's name)
        """Formats a record as one line."""
        fields = vars(record).get("fields")
        return f"{super().formatMessage(record)} {in_json(fields)}" if fields else super().formatMessage(record)


class _File:
    """The file of the record: if it is moved away, as by logrotate, a new one is created under its name. Only its owner can read it."""

    def __init__(self, path: Path) -> None:
        self.unwritten = 0
        self._path = path
        self._failing = False
        self._file = self._opened()

    def write(self, lines: bytes) -> None:
        """Writes lines. Trouble with the file is logged once, until lines can be written again."""
        try:
            if self._was_moved():
                self._file, former = self._opened(), self._file
                os.close(former)
            write_all(self._file, lines)
        except OSError:
            self.unwritten += lines.count(b"\n")
            if not self._failing:
                _LOG.exception("the access log can't be written")
            self._failing = True
            return
        if self._failing:
            self._failing = False
            _LOG.warning("the access log can be written again; %d calls are missing in it", self.unwritten)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)

    def _was_moved(self) -> bool:
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._file))
        except FileNotFoundError:
            return True

    def _opened(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)


def _fields(method: str, seconds: float, ended: PolicyError | str) -> dict[str, object]:
    found: dict[str, object] = {"call": method, "ms": round(seconds * 1000, 1)}
    if isinstance(ended, PolicyError):
        return found | {"outcome": ended.kind.value, "reason": ended.reason}
    return found | {"outcome": ended}


def _caller(caller: Caller) -> dict[str, object]:
    if not caller.principal:
        return {}
    named = {"principal": caller.principal, "way": caller.way.value}
    return {**named, **({"speaks_for": caller.speaks_for} if caller.speaks_for else {})}


def _change(request: Request, caller: Caller) -> dict[str, object]:
    claimed = request.claimed if request.principal or caller.principal else request.actor
    return {
        **({"actor": claimed} if claimed else {}),
        "topic": request.key.topic,
        "scope": request.key.scope.name,
        "request_id": request.request_id,
        **({"dry_run": True} if request.validate_only else {}),
    }
