"""The options of limits, made from the fields of ``Limits``: a new field is an option at once, with its docstring as the help."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Iterator

from ..limits import Limits, bounds
from ..option import Kind, Option, ReadBy

_SECTION = "Limits"


def limits() -> Iterator[Option]:
    """Returns an option for each limit."""
    told = _docstrings()
    defaults = Limits()
    for each in dataclasses.fields(Limits):
        least, most = bounds()[each.name]
        yield Option(
            name=each.name,
            kind=Kind.WHOLE if each.type == "int" else Kind.NUMBER,
            help=told.get(each.name, ""),
            section=_SECTION,
            default=getattr(defaults, each.name),
            metavar="N",
            least=least,
            most=most,
            read_by=ReadBy.SERVE if each.metadata.get("serving") else ReadBy.BOTH,
        )


def _docstrings() -> dict[str, str]:
    """Returns the docstring below each field of ``Limits``, by name; empty where the source text is not available."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(Limits))).body
    except OSError:
        return {}
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            assert isinstance(text.value, ast.Constant)
            found[field.target.id] = " ".join(str(text.value.value).split())
    return found
