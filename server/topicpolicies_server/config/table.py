"""Every option of a server and of a guard, in one table.

An option stands here once; its flag, its environment variable, its key in a file, the help, the sample file and the reference are made of
that. The limits are the fields of ``Limits``: a new one is an option by itself, and its docstring its help.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache

from .address import DEFAULT_LISTEN, parse_address
from .limits import Limits, bounds
from .logs import MOST_RECALLED_ENTRIES, RECALLED_ENTRIES, Writer
from .option import PREFIX, Kind, Option, ReadBy
from .server import LogLevel

_LOG, _NETWORK, _HISTORY, _REPAIRS, _TELLING, _LIMITS = "Change log", "Network", "History", "Repairs", "What it tells", "Limits"
_CHECKPOINTS = "Checkpoints"

FILE_VARIABLE = f"{PREFIX}CONFIG"
"""The environment variable that names the file of options."""
CLIENT_VARIABLES = tuple(PREFIX + name for name in ("SERVER", "OUTPUT", "ACTOR", "REASON"))
"""The environment variables of the commands that call a server."""


def _limits() -> Iterator[Option]:
    told = _docstrings()
    limits = Limits()
    for each in dataclasses.fields(Limits):
        least, most = bounds()[each.name]
        yield Option(
            name=each.name,
            kind=Kind.WHOLE if each.type == "int" else Kind.NUMBER,
            help=told.get(each.name, ""),
            section=_LIMITS,
            default=getattr(limits, each.name),
            metavar="N",
            least=least,
            most=most,
            read_by=ReadBy.SERVE if each.metadata.get("serving") else ReadBy.BOTH,
        )


def _docstrings() -> dict[str, str]:
    """What stands below each field of ``Limits``; nothing where Python has no source text to look at."""
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


_DECLARED = (
    Option(
        name="data",
        kind=Kind.FILE,
        help="The embedded log, without a broker: one SQLite file, which is made if there is none.",
        section=_LOG,
        default_text="policies.db in your data folder, unless ``pulsar`` is given",
        example='"policies.db"',
        metavar="FILE.db",
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="cluster_file",
        kind=Kind.FILE,
        help="What is known of the cluster; goes with ``data``.",
        section=_LOG,
        example='"cluster.toml"',
        metavar="FILE.toml",
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="pulsar",
        kind=Kind.TEXT,
        help="Pulsar's own log, in place of the embedded one: the brokers' service URL.",
        section=_LOG,
        default="",
        example='"pulsar://broker:6650"',
        metavar="pulsar://HOST:PORT",
    ),
    Option(
        name="admin_url",
        kind=Kind.TEXT,
        help="A broker's admin API; goes with ``pulsar``.",
        section=_LOG,
        default="",
        example='"http://broker:8080"',
        metavar="http://HOST:PORT",
    ),
    Option(
        name="pulsar_token_file",
        kind=Kind.FILE,
        help="A file with the token for Pulsar; it is read again for each connection.",
        section=_LOG,
        example='"/run/secrets/token"',
        metavar="FILE",
    ),
    Option(
        name="pulsar_tls_trust_certs",
        kind=Kind.FILE,
        help="The authorities of Pulsar's certificates, PEM.",
        section=_LOG,
        default_text="those of the system",
        example='"/etc/pulsar/ca.pem"',
        metavar="FILE",
    ),
    Option(
        name="writer",
        kind=Kind.CHOICE,
        help="Who writes Pulsar's log: everybody, or one sidecar at a time.",
        section=_LOG,
        default=Writer.SHARED.value,
        metavar="shared|exclusive",
        choices=tuple(each.value for each in Writer),
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="recalled_entries",
        kind=Kind.WHOLE,
        help="Entries of each partition of Pulsar's log that are read as they were, although compacted.",
        section=_LOG,
        default=RECALLED_ENTRIES,
        metavar="N",
        least=0,
        most=MOST_RECALLED_ENTRIES,
    ),
    Option(
        name="allow_missing_topics",
        kind=Kind.SWITCH,
        help="Take policies of topics that do not exist yet.",
        section=_LOG,
        default=False,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="listen",
        kind=Kind.ADDRESS,
        help="Where to listen; port 0 lets the system choose.",
        section=_NETWORK,
        default=parse_address(DEFAULT_LISTEN),
        metavar="HOST:PORT",
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="insecure_listen",
        kind=Kind.SWITCH,
        help="Let other machines connect without TLS.",
        section=_NETWORK,
        default=False,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="tls_certificate",
        kind=Kind.FILE,
        help="The server's certificate, PEM; with it, it serves with TLS.",
        section=_NETWORK,
        example='"server.pem"',
        metavar="FILE",
        read_by=ReadBy.SERVE,
        given_globally=True,
    ),
    Option(
        name="tls_key",
        kind=Kind.FILE,
        help="The certificate's private key, PEM.",
        section=_NETWORK,
        example='"key.pem"',
        metavar="FILE",
        read_by=ReadBy.SERVE,
        given_globally=True,
    ),
    Option(
        name="tls_client_ca",
        kind=Kind.FILE,
        help="Let in only clients with a certificate of this authority, PEM.",
        section=_NETWORK,
        example='"clients.pem"',
        metavar="FILE",
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="advertise",
        kind=Kind.TEXT,
        help="Where clients reach this server, for the other sidecars of an exclusive log to tell.",
        section=_NETWORK,
        default="",
        default_text="where it listens",
        example='"sidecar-1:6680"',
        metavar="HOST:PORT",
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="metrics_listen",
        kind=Kind.ADDRESS,
        help="Where to show metrics (Prometheus), over HTTP without TLS.",
        section=_NETWORK,
        default_text="nowhere",
        example='"127.0.0.1:9464"',
        metavar="HOST:PORT",
    ),
    Option(
        name="history",
        kind=Kind.FILE,
        help="The server's record of all changes: one SQLite file, which is made if there is none.",
        section=_HISTORY,
        default_text="beside ``data``; none with ``pulsar``",
        example='"history.db"',
        metavar="FILE.db",
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="no_history",
        kind=Kind.SWITCH,
        help="Keep no record.",
        section=_HISTORY,
        default=False,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="history_days",
        kind=Kind.WHOLE,
        help="What is older is dropped.",
        section=_HISTORY,
        default=366,
        metavar="N",
        least=1,
        most=36_600,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="history_megabytes",
        kind=Kind.WHOLE,
        help="Beyond so many MiB the oldest is dropped.",
        section=_HISTORY,
        default=1024,
        metavar="N",
        least=1,
        most=1 << 24,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="checkpoints",
        kind=Kind.FILE,
        help="What a start begins with, to read only what came since: one SQLite file, which is made if there is none. It is a cache.",
        section=_CHECKPOINTS,
        default_text="beside ``data``; none with ``pulsar``",
        example='"checkpoints.db"',
        metavar="FILE.db",
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="no_checkpoints",
        kind=Kind.SWITCH,
        help="Keep none: each start reads the logs from their beginning.",
        section=_CHECKPOINTS,
        default=False,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="guard",
        kind=Kind.LIST,
        help="Namespaces that are kept loaded and repaired, though nobody asks for them; * stands for any characters.",
        section=_REPAIRS,
        default=(),
        default_text="none",
        example='["acme/*"]',
        metavar="NAMESPACE",
        argument=True,
    ),
    Option(
        name="read_only",
        kind=Kind.SWITCH,
        help="Write nothing: refuse updates, and only tell of repairs.",
        section=_REPAIRS,
        default=False,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="report_only",
        kind=Kind.SWITCH,
        help="Write nothing: tell what the guard command would heal.",
        section=_REPAIRS,
        default=False,
        read_by=ReadBy.GUARD,
    ),
    Option(
        name="pause_repairs",
        kind=Kind.SWITCH,
        help="Begin with repairs paused; SIGUSR2 resumes, SIGUSR1 pauses again.",
        section=_REPAIRS,
        default=False,
    ),
    Option(
        name="show_secrets",
        kind=Kind.SWITCH,
        help="Show the object storages' credentials in offload policies to everybody who may read.",
        section=_TELLING,
        default=False,
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="log_level",
        kind=Kind.CHOICE,
        help="How much to tell on standard error.",
        section=_TELLING,
        default=LogLevel.INFO.value,
        metavar="debug|info|warning|error",
        choices=tuple(each.value for each in LogLevel),
    ),
)


@cache
def options() -> dict[str, Option]:
    """All options by their names, in the order in which they are shown."""
    return {each.name: each for each in (*_DECLARED, *_limits())}


def nearest(text: str, names: Iterable[str]) -> str | None:
    """The name that was meant, if one is near."""
    found = difflib.get_close_matches(text.lower().replace("-", "_").lstrip("_"), list(names), 1, 0.75)
    return found[0] if found else None
