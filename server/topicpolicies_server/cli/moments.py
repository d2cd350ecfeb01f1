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
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_time(text: str, option: str) -> datetime:
    """Parses a time: ``now``, one before now (``2h-ago``), or an ISO 8601 time; one without a zone is local."""
    now = datetime.now().astimezone()
    if text.lower() == "now":
        return now
    try:
        if ago := _AGO.fullmatch(text.strip()):
            return now - timedelta(**{_UNITS[ago[2].lower()]: int(ago[1])})
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        forms = "a time (2026-03-01T12:00, with a zone or local), a time before now (2h-ago, 30m-ago, 7d-ago) or now"
        raise typer.BadParameter(f'"{text}" is not a time: write {forms}.', param_hint=option) from None


def parse_moment(text: str, option: str) -> Moment:
    """Parses a time, which has a ``-`` or a blank, or a version.

    ``now`` becomes None, not a time, which would be in the future for a server whose clock is behind.
    """
    if text.lower() == "now":
        return None
    return parse_time(text, option) if "-" in text or " " in text else text


def read_at(client: Client, topic: str, scope: Scope.ValueType, moment: Moment) -> PolicyDocument:
    """Reads a document as it was at a moment, or as it is now. If there is no such version, the error says how a time is written."""
    if moment is None:
        return client.get(topic, scope=scope)
    try:
        return client.as_of(topic, moment, scope=scope)
    except (InvalidArgument, OutOfRange) as error:
        if isinstance(moment, str):
            error.message += f" {moment} was taken as a version; a time is written as 2026-03-01T12:00, 2h-ago or 7d-ago."
        raise
