"""What the command line knows of each field, beyond the Protobuf definition: pulsar-admin's commands and flags, and an example.

Help, completion, ``explain`` and the commands of pulsar-admin (``verbs``) come from this table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor


class Flag(NamedTuple):
    """A flag of a ``set`` command of pulsar-admin 4.2.4. The flags of an object are in the order in which Pulsar prints its fields."""

    names: str
    """Its names, separated by blanks; empty: there is none, only a default or the place of the field."""
    leaf: str = ""
    """The field of the object that it sets; empty: the field itself. With a leading dot: a field of the document."""
    default: str = ""
    """The value that is sent without the flag; empty: none."""
    required: bool = False
    bare: str = ""
    """The unit of a number without one, ``s`` or ``b``; empty: that of the field."""
    switch: str = ""
    """What the flag sets, if it takes no value."""
    values: str = ""
    """The values that it may have, for help."""


class Row(NamedTuple):
    """What is known of one field of a document."""

    example: str
    """Assignments for ``update``, without the name of the field."""
    verb: str = ""
    """What follows ``set-``, ``get-`` and ``remove-`` in pulsar-admin's commands; empty: there are none."""
    flags: tuple[Flag, ...] = ()
    key: str = ""
    """The flag that chooses an entry of a map."""
    one_of: bool = False
    """Whether one of the switches must be given."""


def _count(verb: str, names: str, example: str = "=10") -> Row:
    return Row(example, verb, (Flag(names, required=True),))


def _dispatch(verb: str, key: str = "") -> Row:
    flags = (
        Flag("-md --msg-dispatch-rate", "dispatch_throttling_rate_in_msg", "-1"),
        Flag("-bd --byte-dispatch-rate", "dispatch_throttling_rate_in_byte", "-1"),
        Flag("-rp --relative-to-publish-rate", "relative_to_publish_rate", "false", switch="true"),
        Flag("-dt --dispatch-rate-period", "rate_period_in_second", "1"),
    )
    return Row(".dispatch_throttling_rate_in_msg=1000", verb, flags, key)


_CLUSTERS = "their names, separated by commas"
_TYPES = "Exclusive, Shared, Failover, Key_Shared, separated by commas"
_QUOTA_POLICIES = "producer_request_hold, producer_exception, consumer_backlog_eviction"
_ENABLE = (Flag("-e --enable", switch="true"), Flag("-d --disable", switch="false"))
_OFFLOAD = "managed_ledger_offload_"
_S3, _GCS = f"s3_{_OFFLOAD}", f"gcs_{_OFFLOAD}"
FIELDS = {
    "auto_subscription_creation_override": Row(
        ".allow_auto_subscription_creation=false",
        "auto-subscription-creation",
        (Flag("-e --enable", "allow_auto_subscription_creation", "false", switch="true"),),
    ),
    "back_log_quota_map": Row(
        '.destination_storage=\'{"limit_size": "10G", "policy": "producer_exception"}\'',
        "backlog-quota",
        (
            Flag("-l --limit", "limit_size"),
            Flag("-lt --limitTime", "limit_time"),
            Flag("-p --policy", "policy", required=True, values=_QUOTA_POLICIES),
        ),
        "-t --type",
    ),
    "compaction_threshold": _count("compaction-threshold", "-t --threshold", "=100M"),
    "deduplication_enabled": Row("=true", "deduplication", _ENABLE, one_of=True),
    "deduplication_snapshot_interval_seconds": _count("deduplication-snapshot-interval", "-i --interval", "=2m"),
    "delayed_delivery_enabled": Row(
        "=true",
        "delayed-delivery",
        (
            Flag("-t --time", ".delayed_delivery_tick_time_millis", "1", bare="s"),
            *_ENABLE,
            Flag("-md --maxDelay", ".delayed_delivery_max_delay_in_millis", "0", bare="s"),
        ),
        one_of=True,
    ),
    "delayed_delivery_max_delay_in_millis": Row("=1h"),
    "delayed_delivery_tick_time_millis": Row("=1s"),
    "dispatch_rate": _dispatch("dispatch-rate"),
    "dispatcher_pause_on_ack_state_persistent_enabled": Row("=true", "dispatcher-pause-on-ack-state-persistent", (Flag("", "", "true"),)),
    "entry_filters": Row(
        ".entry_filter_names=audit", "entry-filters-per-topic", (Flag("-efn --entry-filters-name", "entry_filter_names", required=True),)
    ),
    "inactive_topic_policies": Row(
        '=\'{"max_inactive_duration_seconds": "7d", "delete_while_inactive": true, '
        '"inactive_topic_delete_mode": "delete_when_no_subscriptions"}\'',
        "inactive-topic-policies",
        (
            Flag(
                "-m --delete-mode",
                "inactive_topic_delete_mode",
                required=True,
                values="delete_when_no_subscriptions, delete_when_subscriptions_caught_up",
            ),
            Flag("-t --max-inactive-duration", "max_inactive_duration_seconds", required=True),
            Flag("-e --enable-delete-while-inactive", "delete_while_inactive", switch="true"),
            Flag("-d --disable-delete-while-inactive", "delete_while_inactive", switch="false"),
        ),
        one_of=True,
    ),
    "max_consumer_per_topic": _count("max-consumers", "-c --max-consumers"),
    "max_consumers_per_subscription": _count("max-consumers-per-subscription", "-c --max-consumers-per-subscription"),
    "max_message_size": _count("max-message-size", "-m --max-message-size", "=1M"),
    "max_producer_per_topic": _count("max-producers", "-p --max-producers"),
    "max_subscriptions_per_topic": _count("max-subscriptions-per-topic", "-s --max-subscriptions-per-topic"),
    "max_unacked_messages_on_consumer": _count("max-unacked-messages-per-consumer", "-m --maxNum", "=1000"),
    "max_unacked_messages_on_subscription": _count("max-unacked-messages-per-subscription", "-m --maxNum", "=10000"),
    "message_ttl_in_seconds": _count("message-ttl", "-t --ttl", "=3h"),
    "offload_policies": Row(
        f".{_OFFLOAD}threshold_in_bytes=10G",
        "offload-policies",
        (
            Flag("", "offloaders_directory", "./offloaders"),
            Flag(
                "-d --driver",
                f"{_OFFLOAD}driver",
                required=True,
                values="aws-s3, S3, google-cloud-storage, filesystem, azureblob, aliyun-oss",
            ),
            Flag("", f"{_OFFLOAD}max_threads", "2"),
            Flag("", f"{_OFFLOAD}read_threads", "2"),
            Flag("", f"{_OFFLOAD}prefetch_rounds", "1"),
            Flag("-ts --offloadThresholdInSeconds", f"{_OFFLOAD}threshold_in_seconds"),
            Flag("-t --offloadThresholdInBytes", f"{_OFFLOAD}threshold_in_bytes"),
            Flag("-dl --offloadDeletionLagInMillis", f"{_OFFLOAD}deletion_lag_in_millis"),
            Flag("-orp --offloadedReadPriority", "managed_ledger_offloaded_read_priority", values="tiered-storage-first, bookkeeper-first"),
            Flag("", "managed_ledger_extra_configurations"),
            Flag("", f"{_S3}region"),
            Flag("", f"{_S3}bucket"),
            Flag("", f"{_S3}service_endpoint"),
            Flag("", f"{_S3}max_block_size_in_bytes", "67108864"),
            Flag("", f"{_S3}read_buffer_size_in_bytes", "1048576"),
            Flag("-i --aws-id", f"{_S3}credential_id"),
            Flag("-s --aws-secret", f"{_S3}credential_secret"),
            Flag("--ro --s3-role", f"{_S3}role"),
            Flag("-rsn --s3-role-session-name", f"{_S3}role_session_name", "pulsar-s3-offload"),
            Flag("", f"{_GCS}region"),
            Flag("", f"{_GCS}bucket"),
            Flag("", f"{_GCS}max_block_size_in_bytes", "134217728"),
            Flag("", f"{_GCS}read_buffer_size_in_bytes", "1048576"),
            Flag("", f"{_GCS}service_account_key_file"),
            Flag("", "file_system_profile_path"),
            Flag("", "file_system_uri"),
            Flag("-b --bucket", f"{_OFFLOAD}bucket"),
            Flag("-r --region", f"{_OFFLOAD}region"),
            Flag("-e --endpoint", f"{_OFFLOAD}service_endpoint"),
            Flag("-m --maxBlockSizeInBytes", f"{_OFFLOAD}max_block_size_in_bytes", "67108864"),
            Flag("-rb --readBufferSizeInBytes", f"{_OFFLOAD}read_buffer_size_in_bytes", "1048576"),
        ),
    ),
    "persistence": Row(
        '=\'{"bookkeeper_ensemble": 3, "bookkeeper_write_quorum": 3, "bookkeeper_ack_quorum": 2}\'',
        "persistence",
        (
            Flag("-e --bookkeeper-ensemble", "bookkeeper_ensemble", "2"),
            Flag("-w --bookkeeper-write-quorum", "bookkeeper_write_quorum", "2"),
            Flag("-a --bookkeeper-ack-quorum", "bookkeeper_ack_quorum", "2"),
            Flag("-r --ml-mark-delete-max-rate", "managed_ledger_max_mark_delete_rate", "-1"),
            Flag("-c --ml-storage-class", "managed_ledger_storage_class_name"),
        ),
    ),
    "publish_rate": Row(
        ".publish_throttling_rate_in_byte=10M",
        "publish-rate",
        (
            Flag("-m --msg-publish-rate", "publish_throttling_rate_in_msg", "-1"),
            Flag("-b --byte-publish-rate", "publish_throttling_rate_in_byte", "-1"),
        ),
    ),
    "replication_clusters": Row("=us-west,us-east", "replication-clusters", (Flag("-c --clusters", required=True, values=_CLUSTERS),)),
    "replicator_dispatch_rate": _dispatch("replicator-dispatch-rate"),
    "retention_policies": Row(
        '=\'{"retention_time_in_minutes": "7d", "retention_size_in_mb": "10G"}\'',
        "retention",
        (
            Flag("-t --time", "retention_time_in_minutes", required=True, bare="s"),
            Flag("-s --size", "retention_size_in_mb", required=True, bare="b"),
        ),
    ),
    "schema_compatibility_strategy": Row(
        "=full_transitive",
        "schema-compatibility-strategy",
        (
            Flag(
                "-s --strategy",
                required=True,
                values="ALWAYS_INCOMPATIBLE, ALWAYS_COMPATIBLE, BACKWARD, FORWARD, FULL, BACKWARD_TRANSITIVE, FORWARD_TRANSITIVE, "
                "FULL_TRANSITIVE; UNDEFINED clears it",
            ),
        ),
    ),
    "schema_validation_enforced": Row("=true"),
    "shadow_topics": Row("=persistent://acme/shadow/orders"),
    "subscribe_rate": Row(
        ".subscribe_throttling_rate_per_consumer=10",
        "subscribe-rate",
        (
            Flag("-sr --subscribe-rate", "subscribe_throttling_rate_per_consumer", "-1"),
            Flag("-st --subscribe-rate-period", "rate_period_in_second", "30"),
        ),
    ),
    "subscription_dispatch_rate": _dispatch("subscription-dispatch-rate", "-s --subscription"),
    "subscription_expiration_time_in_minutes": _count("subscription-expiration-time", "-t --time", "=7d"),
    "subscription_policies": Row(".`billing`.dispatch_rate.dispatch_throttling_rate_in_msg=100"),
    "subscription_types_enabled": Row(
        "=shared,key_shared",
        "subscription-types-enabled",
        (Flag("-t --types", required=True, values=_TYPES),),
    ),
}
"""All fields of a document."""


def paths(descriptor: Descriptor, above: str = "") -> Iterator[str]:
    """Yields the paths of all fields, and of the fields of objects; a map's as a whole."""
    for field in descriptor.fields:
        yield f"{above}{field.name}"
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            yield from paths(field.message_type, f"{above}{field.name}.")


def meant(word: str) -> list[str]:
    """Returns the fields with a word, in the name or in pulsar-admin's command, that begins so, or with a part that has this name."""
    from topicpolicies import TopicPolicies  # noqa: PLC0415
    from topicpolicies.values import map_value  # noqa: PLC0415

    found = []
    for name, row in FIELDS.items():
        field = TopicPolicies.DESCRIPTOR.fields_by_name[name]
        message = (map_value(field) or field).message_type
        leaves = [path.rpartition(".")[2] for path in paths(message)] if message is not None else []
        if word in leaves or (word and any(each.startswith(word) for each in (*name.split("_"), *row.verb.split("-")))):
            found.append(name)
    return found


def complete(incomplete: str) -> list[str]:
    """Returns the paths that begin with a text, for shells."""
    from topicpolicies import TopicPolicies  # noqa: PLC0415

    return [path for path in paths(TopicPolicies.DESCRIPTOR) if path.startswith(incomplete)]
