"""The note on standard error about answers that the server could not confirm, because it can't reach the change log."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import typer

from . import json_forms


def report_unconfirmed(moments: Iterable[datetime | None], *, json: bool) -> None:
    """Prints since when answers could not be confirmed: the earliest of ``moments``. Prints nothing if all were confirmed.

    Args:
        moments: since when each answer could not be confirmed; None: it was confirmed.
        json: whether to print a JSON document of its own, so that the JSON of the answer stays the same.
    """
    told = [moment for moment in moments if moment is not None]
    if not told:
        return
    since = min(told)
    if json:
        typer.echo(json_forms.dumps({"unconfirmed_since": since.isoformat(timespec="milliseconds")}), err=True)
        return
    shown = since.astimezone().isoformat(sep=" ", timespec="milliseconds")
    typer.echo(f"The server has not reached the change log since {shown}: there may be newer changes than these.", err=True)
