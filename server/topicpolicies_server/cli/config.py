"""The config command: which options are in force, and where each value came from."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from ..config import Address
from ..config.address import meant_as_url, without_credentials
from ..config.building import server_config
from ..config.option import ReadBy
from ..config.rendering import reference, sample, written_value
from ..config.sources import OptionValues, Setting
from ..escaping import printable
from .configured import configured
from .rendering import columns
from .serve import check_tls
from .settings import settings

Sample = Annotated[bool, typer.Option("--sample", help="Print a file of options instead, with every option commented out.")]
Reference = Annotated[bool, typer.Option("--reference", help="Print a table of all options instead, in Markdown.")]


@configured(ReadBy.BOTH)
def config(context: typer.Context, in_force: OptionValues, *, sample_file: Sample = False, reference_table: Reference = False) -> None:
    """Show the options in force, and the source of each.

    It takes the options, the file and the environment variables of serve, and shows the values with which serve would run. It starts and
    writes nothing. Ends with exit code 2 if serve would refuse the options, and lists everything that is wrong.

    \b
    Examples:
      topicpolicies config
      topicpolicies config --config sidecar.toml --max-watches 100
      topicpolicies config --sample > sidecar.toml
    """  # noqa: D301 - "\b" keeps the lines
    if sample_file or reference_table:
        typer.echo(sample() if sample_file else reference(), nl=False)
        return
    chosen = settings(context)
    check_tls(chosen.tls_flags, in_force)
    try:
        server_config(in_force, os.environ)
    finally:
        if chosen.for_programs:
            chosen.show(_json(in_force))
        else:
            _show(in_force)


def _show(in_force: OptionValues) -> None:
    if in_force.file is not None:
        typer.echo(f"file: {printable(str(in_force.file))}")
    values = ((each, written_value(each.value, url=each.option.url)) for each in in_force.settings.values())
    for line in columns((each.option.name, each.source.name.lower(), printable(value)) for each, value in values):
        typer.echo(line)
    if in_force.ignored:
        typer.echo(f"Not options, and ignored: {', '.join(map(printable, sorted(in_force.ignored)))}.", err=True)


def _json(in_force: OptionValues) -> dict[str, Any]:
    told = {
        name: {"value": _plain(setting), "source": setting.source.name.lower(), "where": setting.where}
        for name, setting in in_force.settings.items()
    }
    return {"options": told, "file": str(in_force.file) if in_force.file is not None else "", "ignored": sorted(in_force.ignored)}


def _plain(setting: Setting) -> Any:
    """Returns a value as JSON: addresses and paths are strings, and a value that is not set is null."""
    if setting.value is None or setting.option.numeric or setting.option.type is bool:
        return setting.value
    if isinstance(setting.value, tuple) and not isinstance(setting.value, Address):
        return list(map(meant_as_url if setting.option.url else without_credentials, setting.value))
    return written_value(setting.value, url=setting.option.url) or None
