"""What is said on standard error of answers that the server could not confirm, because it can't reach the change log."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import typer

from . import json_forms


def tell_unconfirmed(moments: Iterable[datetime | None], *, json: bool) -> None:
    """Says since when answers can't be confirmed, by the earliest of these moments; nothing if there is none.

    Args:
        moments: of each answer; None: it could be confirmed.
        json: for programs, as a JSON document of its own: the answer is the message that it always is.
    """
    told = [moment for moment in moments if moment is not None]
    if not told:
        return
    since = min(told)
    if json:
        typer.echo(json_forms.dumps({"unconfirmed_since": since.isoformat(timespec="milliseconds")}), err=True)
        return
    shown = since.astimezone().isoformat(sep=" ", timespec="milliseconds")
    typer.echo(f"The server can't reach the change log since {shown}: there may be newer changes than these.", err=True)
