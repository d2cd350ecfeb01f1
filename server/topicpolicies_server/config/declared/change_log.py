"""The change log: which one, and how it is reached."""

from __future__ import annotations

from ..logs import MOST_RECALLED_ENTRIES, RECALLED_ENTRIES, Writer
from ..option import Kind, Option, ReadBy

_SECTION = "Change log"

OPTIONS = (
    Option(
        name="data",
        kind=Kind.FILE,
        help="The embedded log, without a broker: one SQLite file, which is made if there is none.",
        section=_SECTION,
        default_text="policies.db in your data folder, unless ``pulsar`` is given",
        example='"policies.db"',
        metavar="FILE.db",
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="cluster_file",
        kind=Kind.FILE,
        help="What is known of the cluster; goes with ``data``.",
        section=_SECTION,
        example='"cluster.toml"',
        metavar="FILE.toml",
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="pulsar",
        kind=Kind.TEXT,
        help="Pulsar's own log, in place of the embedded one: the brokers' service URL.",
        section=_SECTION,
        default="",
        example='"pulsar://broker:6650"',
        metavar="pulsar://HOST:PORT",
    ),
    Option(
        name="admin_url",
        kind=Kind.TEXT,
        help="A broker's admin API; goes with ``pulsar``.",
        section=_SECTION,
        default="",
        example='"http://broker:8080"',
        metavar="http://HOST:PORT",
    ),
    Option(
        name="pulsar_token_file",
        kind=Kind.FILE,
        help="A file with the token for Pulsar; it is read again for each connection.",
        section=_SECTION,
        example='"/run/secrets/token"',
        metavar="FILE",
    ),
    Option(
        name="pulsar_tls_trust_certs",
        kind=Kind.FILE,
        help="The authorities of Pulsar's certificates, PEM.",
        section=_SECTION,
        default_text="those of the system",
        example='"/etc/pulsar/ca.pem"',
        metavar="FILE",
    ),
    Option(
        name="writer",
        kind=Kind.CHOICE,
        help="Who writes Pulsar's log: everybody, or one sidecar at a time.",
        section=_SECTION,
        default=Writer.SHARED.value,
        metavar="shared|exclusive",
        choices=tuple(each.value for each in Writer),
        read_by=ReadBy.SERVE,
    ),
    Option(
        name="recalled_entries",
        kind=Kind.WHOLE,
        help="Entries of each partition of Pulsar's log that are read as they were, although compacted.",
        section=_SECTION,
        default=RECALLED_ENTRIES,
        metavar="N",
        least=0,
        most=MOST_RECALLED_ENTRIES,
    ),
    Option(
        name="allow_missing_topics",
        kind=Kind.SWITCH,
        help="Take policies of topics that do not exist yet.",
        section=_SECTION,
        default=False,
        read_by=ReadBy.SERVE,
    ),
)
