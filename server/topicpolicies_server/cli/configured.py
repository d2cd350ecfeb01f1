"""Commands that take the options of a server: their flags are made from the table of options."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ..config.option import Option, ReadBy
from ..config.rendering import plain, written_value
from ..config.sources import options, read_options
from .settings import REQUIRED, TlsFlags, settings, with_parameters

_FILE = Annotated[Path | None, typer.Option("--config", metavar="FILE.toml", help="A file of options; also TOPICPOLICIES_CONFIG.")]

_GLOBAL = ("tls_certificate", "tls_key")
"""Options whose flags are global options of the command line."""


def configured(by: ReadBy, *, of_server: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the flags of all options that it reads, and calls it with the values in force.

    The command takes the context, then the values in force, then parameters of its own, which Typer sees unchanged.

    Args:
        by: whose options the command takes, those of serve or of guard.
        of_server: whether the global options of certificate and key are the server's own; else they are the client's.
    """
    taken = [each for each in options().values() if each.read_by & by and each.name not in _GLOBAL]
    arguments = ["guard"] if by is ReadBy.GUARD else []

    def made(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[2:]

        def run(context: typer.Context, config_file: Path | None, **given: Any) -> None:
            others = {each.name: given.pop(each.name) for each in own}
            flags = given | {name: tuple(given[name] or ()) for name in arguments}
            tls = settings(context).tls_flags if of_server else TlsFlags()
            flags |= {"tls_certificate": tls.certificate_file, "tls_key": tls.key_file}
            command(context, read_options(flags, os.environ, config_file), **others)

        run.__doc__ = command.__doc__
        run.__name__ = command.__name__
        parameters = [("context", typer.Context, REQUIRED), *((each.name, each.annotation, each.default) for each in own)]
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
