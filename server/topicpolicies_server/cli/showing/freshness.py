"""The note on standard error about an answer that the server could not confirm, because it can't reach the change log."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import typer

from topicpolicies import Client

from . import json_forms

_KEY = "topicpolicies-unconfirmed-since"
_READS = ("GetPolicy", "GetEffectivePolicy", "ListPolicies", "GetPolicyAsOf", "ListHistory")


def note_unconfirmed(client: Client, *, json: bool) -> None:
    """From now on, prints since when the client's answers could not be confirmed; once, and nothing if all are confirmed.

    Args:
        client: the client of the command.
        json: whether to print a JSON document of its own, so that the JSON of the answer stays the same.
    """
    noted = False

    def noting(method: Any) -> Callable[..., Any]:
        def call(request: Any, **options: Any) -> Any:
            nonlocal noted
            answer, about = method.with_call(request, **options)
            since = dict(about.trailing_metadata() or ()).get(_KEY)
            if since and not noted:
                noted = True
                _note(datetime.fromisoformat(since), json=json)
            return answer

        return call

    for stub in (client.stub, client.history_stub):
        for name in _READS:
            if hasattr(stub, name):
                setattr(stub, name, noting(getattr(stub, name)))


def _note(since: datetime, *, json: bool) -> None:
    if json:
        typer.echo(json_forms.dumps({"unconfirmed_since": since.isoformat(timespec="milliseconds")}), err=True)
        return
    shown = since.astimezone().isoformat(sep=" ", timespec="milliseconds")
    typer.echo(f"The server has not reached the change log since {shown}: there may be newer changes than these.", err=True)
