"""The commands of pulsar-admin topicPolicies: ``set-retention``, ``get-retention``, ``remove-retention`` and the others, with its flags.

Each is a row of ``fields.FIELDS`` over ``update``, ``get`` and ``effective``, and prints what pulsar-admin prints: nothing if it changes
something, and the value that it gets as Java's JSON; for programs the result of the change, and the value, in the form of ``--output``. A
value that does not divide into the field's unit is refused, where pulsar-admin cuts it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Annotated, Any

import typer

from .fields import FIELDS, Flag, Row
from .globals import REQUIRED, Globals, OneScope, Topic, WrongUsage, scope_of, with_parameters

_POSITIVE = re.compile("[+]?0*[1-9][0-9]*")
"""A number without a unit: 0 and -1 need none."""
_DELAYED = "delayed_delivery_enabled"
"""The field of the only command that sets several fields together: ``endpoints`` has their names."""
_OFFLOADERS = {"s3": "s3_", "aws-s3": "s3_", "aliyun-oss": "s3_", "google-cloud-storage": "gcs_", "filesystem": "file_system_"}
"""The drivers of offload policies, by name in lower case, and how the names of their own fields begin."""
VERBS = {f"{action}-{row.verb}": name for name, row in FIELDS.items() if row.verb for action in ("set", "get", "remove")}
"""The commands, and the field of each."""
_Applied = Annotated[bool, typer.Option("-ap", "-a", "--applied", help="The value in force, whatever level sets it.")]


def function_of(command: str) -> Callable[..., None]:
    """Returns the function of a command, with its flags as parameters."""
    action, _, verb = command.partition("-")
    name = VERBS[command]
    row = FIELDS[name]
    flags = row.flags if action == "set" else ()

    def run(chosen: Globals, topic: str, scope: str, **given: Any) -> None:
        from .assignments import parse  # noqa: PLC0415
        from .calls import calling  # noqa: PLC0415
        from .endpoints import ENDPOINTS  # noqa: PLC0415

        key = given.pop("key", "")
        path = name if action == "get" else _path(name, row, key)
        assignments = _assignments(path, row, given) if action == "set" else {}
        with calling(chosen) as client:
            if action == "get":
                value = _value(client, topic, scope_of(scope), name, key, applied=given["applied"])
                if not chosen.shown({"value": value}):
                    typer.echo(_printed(name, value), nl=False)
                return
            texts = {path: text for path, text in assignments.items() if text != "UNDEFINED"}  # a strategy that is none
            values = parse([f"{path}={text}" for path, text in texts.items()], assignments.keys() - texts.keys()).values
            mask = list(ENDPOINTS["delayed_delivery"].members) if name == _DELAYED else [path]  # the whole setting, as pulsar-admin has it
            client.server_info()  # fails if there is no server: nothing was sent then
            result = client.update(topic, values, mask=mask, scope=scope_of(scope), reason=chosen.reason)
            chosen.shown(result, [topic])

    run.__doc__ = f"{action.title()} {verb.replace('-', ' ')} of a topic, as pulsar-admin topicPolicies does ({name})."
    parameters: list[tuple[str, Any, Any]] = [("topic", Topic, REQUIRED), ("scope", OneScope, "local")]
    if action == "get":
        parameters.append(("applied", _Applied, False))
    if row.key and (action != "get" or name != "back_log_quota_map"):
        default = "destination_storage" if name == "back_log_quota_map" else ""
        told = "destination_storage or message_age." if default else "The subscription; by default all of the topic."
        parameters.append(("key", Annotated[str, typer.Option(*row.key.split(), metavar="NAME", help=told)], default))
    for flag in flags:
        if flag.names:
            without = REQUIRED if flag.required else False if flag.switch else None
            parameters.append((_name(flag), _option(flag, flag.leaf.lstrip(".") or name), without))
    return with_parameters(run, parameters)


def _name(flag: Flag) -> str:
    return "flag_" + flag.names.split()[-1].strip("-").replace("-", "_")


def _option(flag: Flag, told: str) -> Any:
    if flag.switch:
        return Annotated[bool, typer.Option(*flag.names.split(), help=f"{told}: {flag.switch}.")]
    from ..declared.values import unit_of  # noqa: PLC0415

    unit = {"s": "seconds", "b": "bytes"}.get(flag.bare) or unit_of(told)
    told += f": {flag.values}" if flag.values else f": {unit}, or with a unit" if unit else ""
    note = f"; by default {flag.default}" if flag.default else ""
    kind = str if flag.required else str | None
    return Annotated[kind, typer.Option(*flag.names.split(), metavar="VALUE", help=f"{told}{note}.")]


def _path(name: str, row: Row, key: str) -> str:
    if name == "back_log_quota_map" and key not in ("destination_storage", "message_age"):
        raise WrongUsage(f'"{key}" is not a type of quota: give destination_storage or message_age.')
    if not row.key or not key:
        return name
    quoted = "`" + key.replace("`", "``") + "`"
    return f"{name}.{quoted}" if name == "back_log_quota_map" else f"subscription_policies.{quoted}.dispatch_rate"


def _assignments(path: str, row: Row, given: dict[str, Any]) -> dict[str, str]:
    """Returns the texts of the values that are set, by path."""
    found: dict[str, str] = {}
    switches = [flag for flag in row.flags if flag.switch and given[_name(flag)]]
    if row.one_of and len(switches) != 1:
        names = " or ".join(flag.names.split()[-1] for flag in row.flags if flag.switch)
        raise WrongUsage(f"Say either {names}.")
    for flag in row.flags:
        at = path if not flag.leaf else flag.leaf[1:] if flag.leaf.startswith(".") else f"{path}.{flag.leaf}"
        value = (flag.switch if flag in switches else None) if flag.switch else given.get(_name(flag)) if flag.names else None
        if value is None and flag.default:
            value = flag.default
        if value is not None:
            found[at] = value.removeprefix("+") + flag.bare if _POSITIVE.fullmatch(value) else value
    if path.startswith("back_log_quota_map"):  # the other limit is ignored, as pulsar-admin does
        needed, names, other = ("limit_time", "-lt", "limit_size") if "message_age" in path else ("limit_size", "-l", "limit_time")
        if f"{path}.{needed}" not in found:
            raise WrongUsage(f"A quota of this type needs {names}: its {needed.replace('_', ' ')}.")
        found.pop(f"{path}.{other}", None)
    if path == "offload_policies":  # pulsar-admin repeats what all drivers have among the driver's own fields
        driver = found[f"{path}.managed_ledger_offload_driver"].lower()
        places = {f"{path}.managed_ledger_offload_{each}" for each in ("region", "service_endpoint")}
        if driver in ("s3", "aws-s3") and not places & found.keys():
            raise WrongUsage("The drivers of S3 need --region or --endpoint.")
        prefix = _OFFLOADERS.get(driver, "-")
        leaves = [flag.leaf for flag in row.flags if flag.leaf.startswith(prefix)]
        general = {leaf: f"{path}.{leaf.removeprefix(prefix)}" for leaf in leaves}
        found |= {f"{path}.{leaf}": found[at] for leaf, at in general.items() if at in found}
    return found


def _value(client: Any, topic: str, scope: int, name: str, key: str, *, applied: bool) -> Any:
    """Returns the JSON of a value as the admin API has it; None: it is not set. ``key``: that of the map's entry."""
    from .endpoints import json_of  # noqa: PLC0415

    document = client.effective(topic) if applied else client.get(topic, scope=scope)
    if not document.HasField("policies"):
        _check_exists(client, topic)
    family = "subscription_policies" if key else "delayed_delivery" if name == _DELAYED else name
    value = json_of(family, key, document.policies)
    if name == "dispatcher_pause_on_ack_state_persistent_enabled":
        return bool(value)
    if value == []:  # brokers keep an empty list of types
        return [] if name == "subscription_types_enabled" and document.HasField("policies") else None
    if name == _DELAYED and value is not None:
        return {member: 0 if each is None else each for member, each in value.items()} if value["active"] is not None else None
    return _ordered(name, value) if isinstance(value, dict) and name != "back_log_quota_map" else value


def _printed(name: str, value: Any) -> str:
    """Returns the lines of a value as pulsar-admin prints it."""
    if name == "back_log_quota_map":
        return "".join(f"{kind}    {_quota(quota)}\n" for kind, quota in sorted(value.items()))
    return (value if name == "schema_compatibility_strategy" and value is not None else _java(value)) + "\n"


def _check_exists(client: Any, topic: str) -> None:
    from topicpolicies import NotFound, TopicPoliciesError  # noqa: PLC0415

    try:
        client.effective(topic)
    except NotFound:
        raise
    except TopicPoliciesError:  # the server can't tell
        pass


def _quota(quota: dict[str, Any]) -> str:
    size, time = (-1 if quota[name] is None else quota[name] for name in ("limitSize", "limitTime"))
    return f"BacklogQuotaImpl(limit={size}, limitSize={size}, limitTime={time}, policy={quota['policy']})"


def _ordered(name: str, members: dict[str, Any]) -> dict[str, Any]:
    """Returns the members of an object that are set in the order of its flags, and what Pulsar adds to them."""
    from topicpolicies import TopicPolicies  # noqa: PLC0415

    message: Any = TopicPolicies.DESCRIPTOR.fields_by_name[name].message_type
    order = [message.fields_by_name[flag.leaf].json_name for flag in FIELDS[name].flags]
    found = {each: members[each] for each in sorted(members, key=order.index) if members[each] is not None}
    if name == "offload_policies":
        prefix = _OFFLOADERS.get(found.get("managedLedgerOffloadDriver", "").lower(), "")
        told = {"s3Driver": "s3_", "gcsDriver": "gcs_", "fileSystemDriver": "file_system_"}
        found |= {each: prefix == beginning for each, beginning in told.items()}
    return found


def _java(value: Any, indent: str = "") -> str:
    """Returns JSON as Jackson's default pretty printer writes it."""
    if isinstance(value, dict) and value:
        inner = indent + "  "
        return "{\n" + ",\n".join(f'{inner}"{name}" : {_java(each, inner)}' for name, each in value.items()) + f"\n{indent}}}"
    if isinstance(value, list):
        return f"[ {', '.join(map(_java, value))} ]" if value else "[ ]"
    return "{ }" if value == {} else json.dumps(value, ensure_ascii=False)
