"""The options of a server: commands that take them, whose flags are made from the table of options; and the command that shows them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ..config import Address
from ..config.building import server_config
from ..config.option import Option, ReadBy
from ..config.rendering import plain, sample, written_value
from ..config.sources import OptionValues, Setting, options, read_options
from ..escaping import printable
from .globals import Globals, with_parameters
from .rendering import columns

_FILE = Annotated[Path | None, typer.Option("--config", metavar="FILE.toml", help="A file of options; also TOPICPOLICIES_CONFIG.")]


def configured(by: ReadBy, *, without: Sequence[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the flags of all options that it reads, and calls it with the values in force.

    The command takes the global options, then the values in force, then parameters of its own, which Typer sees unchanged.

    Args:
        by: whose options the command takes, those of serve or of guard.
        without: the options of which it takes no flags.
    """
    taken = [each for each in options().values() if each.read_by & by and each.name not in without]
    arguments = ["guard"] if by is ReadBy.GUARD else []

    def made(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[2:]

        def run(chosen: Globals, config_file: Path | None, **given: Any) -> None:
            others = {each.name: given.pop(each.name) for each in own}
            flags = given | {name: tuple(given[name] or ()) for name in arguments}
            command(chosen, read_options(flags, os.environ, config_file), **others)

        run.__doc__ = command.__doc__
        run.__name__ = command.__name__
        parameters = [(each.name, each.annotation, each.default) for each in own]
        flags = [(each.name, _flag(each, argument=each.name in arguments), None) for each in taken]
        return with_parameters(run, [*parameters, ("config_file", _FILE, None), *flags])

    return made


def _flag(option: Option, *, argument: bool) -> Any:
    """Returns the parameter of a flag, None by default. Its value is checked together with the other sources, not by Typer."""
    told: dict[str, Any] = {"help": _help(option), "show_default": False}
    if option.type is bool:
        names = option.flag if option.name.startswith("no_") else f"{option.flag}/--no-{option.flag.removeprefix('--')}"
        return Annotated[bool | None, typer.Option(names, **told)]
    told["metavar"] = option.metavar
    if argument:
        return Annotated[list[str] | None, typer.Argument(**told)]
    if option.choices:
        told["autocompletion"] = lambda: list(option.choices)
    kind = {Path: Path | None, tuple: list[str] | None}.get(option.type, str | None)
    return Annotated[kind, typer.Option(option.flag, **told)]


def _help(option: Option) -> str:
    default = option.default_text or ("" if option.default in (None, "", (), False) else written_value(option.default))
    notes = [f"default: {default}"] if default else []
    if option.numeric:
        notes.append(option.allowed)
    return plain(f"{option.help}  [{'; '.join(notes)}]" if notes else option.help, lambda other: other.flag)


Sample = Annotated[bool, typer.Option("--sample", help="Print a file of options instead, with every option commented out.")]


@configured(ReadBy.BOTH)
def config(chosen: Globals, in_force: OptionValues, *, sample_file: Sample = False) -> None:
    """Show the options in force, and the source of each.

    It takes the options, the file and the environment variables of serve, and shows the values with which serve would run. It starts and
    writes nothing. Ends with exit code 2 if an option is wrong, and lists all that are.

    \b
    Examples:
      topicpolicies config
      topicpolicies config --config sidecar.toml --max-watches 100
      topicpolicies config --sample > sidecar.toml
    """  # noqa: D301 - "\b" keeps the lines
    if sample_file:
        typer.echo(sample(), nl=False)
        return
    try:
        server_config(in_force, os.environ)
    finally:
        if not chosen.shown(_json(in_force)):
            _show(in_force)


def _show(in_force: OptionValues) -> None:
    if in_force.file is not None:
        typer.echo(f"file: {printable(str(in_force.file))}")
    values = ((each, written_value(each.value)) for each in in_force.settings.values())
    for line in columns((each.option.name, each.source, printable(value)) for each, value in values):
        typer.echo(line)
    if in_force.ignored:
        typer.echo(f"Not options, and ignored: {', '.join(map(printable, sorted(in_force.ignored)))}.", err=True)


def _json(in_force: OptionValues) -> dict[str, Any]:
    told = {
        name: {"value": _plain(setting), "source": setting.source, "where": setting.where} for name, setting in in_force.settings.items()
    }
    return {"options": told, "file": str(in_force.file) if in_force.file is not None else "", "ignored": sorted(in_force.ignored)}


def _plain(setting: Setting) -> Any:
    """Returns a value as JSON: addresses and paths are strings, and a value that is not set is null."""
    if setting.value is None or setting.option.numeric or setting.option.type is bool:
        return setting.value
    if isinstance(setting.value, tuple) and not isinstance(setting.value, Address):
        return list(setting.value)
    return written_value(setting.value) or None
