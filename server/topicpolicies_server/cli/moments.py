"""Moments as people type them: times, times before now, and versions. Also reads a document as it was at a moment."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TypeAlias

import typer

from topicpolicies import Client, InvalidArgument, OutOfRange, PolicyDocument, Scope

Moment: TypeAlias = datetime | str | None
"""A time, a version, or None: now."""
_AGO = re.compile(r"(\d{1,9})\s*([smhdw])[\s-]+ago", re.IGNORECASE)
_VERSION = re.compile(r"(?=.*[0-9])(?![0-9]+[smhw]$)[0-9A-Za-z]+", re.ASCII)
"""What may be a version: letters and digits, but not letters alone, nor a time before now without its "ago", such as 2h."""
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_time(text: str, option: str, *, versions: bool = False) -> datetime:
    """Parses a time: ``now``, one before now (``2h-ago``), or an ISO 8601 time; one without a zone is local.

    ``versions``: whether a version could stand there too, for the error.
    """
    now = datetime.now().astimezone()
    if text.lower() == "now":
        return now
    try:
        if ago := _AGO.fullmatch(text.strip()):
            return now - timedelta(**{_UNITS[ago[2].lower()]: int(ago[1])})
        if "-" in text:  # ISO 8601 also has forms without one, which may be versions
            return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        pass
    what, more = ("neither a time nor a version", ", or a version") if versions else ("not a time", "")
    forms = "a time (2026-03-01T12:00, with a zone or local), a time before now (2h-ago, 30m-ago, 7d-ago) or now"
    raise typer.BadParameter(f'"{text}" is {what}: write {forms}{more}.', param_hint=option)


def parse_moment(text: str, option: str) -> Moment:
    """Parses a time or a version. ``now`` becomes None, not a time, which would be in the future for a server whose clock is behind."""
    if text.lower() == "now":
        return None
    return text if _VERSION.fullmatch(text) else parse_time(text, option, versions=True)


def read_at(client: Client, topic: str, scope: Scope.ValueType, moment: Moment) -> PolicyDocument:
    """Reads a document as it was at a moment, or as it is now.

    A text such as ``1d`` is a version; if there is none of this name, the error says how a time is written.
    """
    if moment is None:
        return client.get(topic, scope=scope)
    try:
        return client.as_of(topic, moment, scope=scope)
    except (InvalidArgument, OutOfRange) as error:
        if isinstance(moment, str) and re.fullmatch(r"[0-9]+d", moment, re.IGNORECASE):
            error.message += f" {moment} was taken as a version; for a time write {moment}-ago."
        raise
