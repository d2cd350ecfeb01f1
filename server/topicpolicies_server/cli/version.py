"""The version command."""

from __future__ import annotations

import json
from importlib import metadata

import typer

from .settings import settings


def version(context: typer.Context) -> None:
    """Show the version of this program."""
    try:
        found = metadata.version("topicpolicies")
    except metadata.PackageNotFoundError:
        found = "0+unknown"
    typer.echo(json.dumps({"version": found}) if settings(context).json else f"topicpolicies {found}")
