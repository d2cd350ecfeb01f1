"""The explain command: what a field takes and means, from the Protobuf definition and the table of fields."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from google.protobuf.descriptor import FieldDescriptor

from topicpolicies import TopicPolicies, Violation
from topicpolicies.errors import invalid
from topicpolicies.masks import format_path
from topicpolicies.values import ValueProblem, enum_name, kind_name, map_value

from ..declared.values import comment_of, find, is_number, unit_of
from .app import COMMANDS
from .fields import FIELDS, Row, complete, meant, paths
from .globals import Globals
from .rendering import show_columns
from .verbs import VERBS


def explain(
    chosen: Globals,
    field: Annotated[
        str,
        typer.Argument(
            metavar="FIELD", help="A field, a word of fields' names, or pulsar-admin's command; default: all.", autocompletion=complete
        ),
    ] = "",
) -> None:
    """Explain a field: its meaning, type, unit and example.

    \b
    Examples:
      topicpolicies explain
      topicpolicies explain retention_policies
      topicpolicies explain set-backlog-quota
      topicpolicies explain messageTTLInSeconds -o json
    """  # noqa: D301 - "\b" keeps the lines
    names = list(FIELDS)
    try:
        names = names if not field else [VERBS.get(field) or VERBS.get(f"set-{field}", field)]
        target = find(names[0])
    except ValueProblem as problem:
        names = meant(field.lower())
        if not names:
            a_command = f"That is a command: topicpolicies {field} --help"
            raise invalid(Violation(field, problem.reason, a_command if field in COMMANDS else str(problem))) from None
        target = find(names[0])
    if len(names) > 1:
        every = TopicPolicies.DESCRIPTOR.fields_by_name
        if not chosen.shown({"fields": [explanation(name, every[name]) for name in names]}):
            show_columns((name, comment_of(f"TopicPolicies.{name}").partition(". ")[0] + ".") for name in names)
        return
    told = explanation(format_path(target.path), target.value if target.entry else target.field)
    if chosen.shown(told):
        return
    typer.echo(told.pop("field"))
    show_columns([(told.pop("comment"),)])
    typer.echo()
    parts = [(name, told.pop(name)) for name in ("values", "fields") if name in told]
    example = told.pop("example")
    show_columns(list(told.items()))
    for name, rows in parts:
        typer.echo(f"\n{name}:")
        show_columns([(f"  {each}", text) for each, text in rows.items()])
    typer.echo(f"\nexample:\n  {example}")  # in one line, to be copied


def explanation(path: str, field: FieldDescriptor) -> dict[str, Any]:
    """Returns what is known of a field, by name of the fact; what does not apply is missing."""
    row = FIELDS[path.partition(".")[0]]
    entries = map_value(field)
    message = field.message_type if entries is None else entries.message_type
    unit = unit_of(field.name)
    found: dict[str, Any] = {
        "field": path,
        "comment": comment_of(f"{field.containing_type.name}.{field.name}") if field.containing_type is not None else "",
        "type": _type(field),
        "unit": f"{unit}; or with a unit: {'512, 10M, 1G' if 'byte' in unit else '90s, 15m, 3h, 7d'}" if unit else "",
        "JSON name": field.json_name,
    }
    if field.enum_type is not None:
        prefix = field.enum_type.values[0].name.removesuffix("UNSPECIFIED")
        found["values"] = {each.name.removeprefix(prefix).lower(): comment_of(each.name) for each in field.enum_type.values[1:]}
    if message is not None:
        above = path if entries is None else f"{path}.KEY"
        found["fields"] = {f"{above}.{name}": comment_of(f"{message.name}.{name}") for name in paths(message)}
    example = _example(path, field)
    found["example"] = "topicpolicies update TOPIC " + (f"'{example}'" if "`" in example else example)  # for a shell
    found["pulsar-admin"] = pulsar_admin(row)
    return {name: value for name, value in found.items() if value}


def _example(path: str, field: FieldDescriptor) -> str:
    """Returns an assignment: that of the table, which sets a whole object; of a leaf of ``offload_policies``, one by its type and unit."""
    name = path.partition(".")[0]
    of_table = f"{name}{FIELDS[name].example}"
    if name != "offload_policies" or path == name or of_table.startswith(f"{path}="):
        return of_table
    if field.message_type is not None:
        entry = map_value(field) is not None  # the only such map below a field is one of texts
        return f"{path}.KEY=VALUE" if entry else _example(f"{path}.{field.message_type.fields[0].name}", field.message_type.fields[0])
    if field.enum_type is not None:
        return f"{path}={enum_name(field.enum_type, field.enum_type.values[1].number).lower()}"
    unit = unit_of(field.name)
    if is_number(field):
        return f"{path}={('10M' if 'byte' in unit else '1h') if unit else 10}"
    return f"{path}={'true' if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL else 'TEXT'}"


def pulsar_admin(row: Row) -> str:
    """Returns the command of pulsar-admin that sets a field, with its flags; empty: it has none."""
    if not row.verb:
        return ""
    flags = " ".join(f"[{names.replace(' ', ' | ')}]" for names in (*(flag.names for flag in row.flags), row.key) if names)
    return f"set-{row.verb} {flags} TOPIC, get-{row.verb}, remove-{row.verb}".replace("  ", " ")


def _type(field: FieldDescriptor) -> str:
    entries = map_value(field)
    if entries is not None:
        return f"map of {entries.message_type.name if entries.message_type is not None else 'texts'}"
    if field.message_type is not None:
        return str(field.message_type.name)
    return f"list of {kind_name(field).removeprefix('a ')}s" if field.is_repeated else kind_name(field).removeprefix("a ")
