"""Rules about the value of a single setting (``PersistentTopicsBase``, ``AdminResource``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from topicpolicies.v1.policies_pb2 import OffloadPolicies

from .judging import Judged, blamed

Problem: TypeAlias = tuple[str, str]
"""The request's field that violates a rule, and a sentence that says what is wrong and what to do."""
Check: TypeAlias = Callable[[Judged], Iterator[Problem]]

DRIVERS = ("S3", "aws-s3", "google-cloud-storage", "filesystem", "azureblob", "aliyun-oss")
"""The offload drivers that every broker knows (``OffloadPoliciesImpl.INTERNAL_SUPPORTED_DRIVER``)."""
_BUCKET_OF = {
    "s3": "s3_managed_ledger_offload_bucket",
    "aws-s3": "s3_managed_ledger_offload_bucket",
    "google-cloud-storage": "gcs_managed_ledger_offload_bucket",
}
_PERSISTENCE = (
    ("bookkeeper_ensemble", "max_ensemble"),
    ("bookkeeper_write_quorum", "max_write_quorum"),
    ("bookkeeper_ack_quorum", "max_ack_quorum"),
)


def not_negative(field: str) -> Check:
    """Returns a check that a number is 0 or more."""

    def check(judged: Judged) -> Iterator[Problem]:
        value = getattr(judged.policies, field)
        if value < 0:
            yield blamed(field), f"{field} is {value}: give 0 or more, or clear it."

    return check


def message_size_fits(judged: Judged) -> Iterator[Problem]:
    """Checks that the largest message is not larger than the brokers' maximum."""
    most = judged.facts.broker.max_message_size if judged.facts.broker is not None else None
    size = judged.policies.max_message_size
    if most is not None and size > most:
        yield (
            blamed("max_message_size"),
            f"max_message_size is {size}, and the brokers accept at most {most} bytes: give no more than that.",
        )


def retention_limits(judged: Judged) -> Iterator[Problem]:
    """Checks that each limit of retention is -1 or more."""
    if judged.policies.HasField("retention_policies"):
        retention = judged.policies.retention_policies
        for leaf in ("retention_time_in_minutes", "retention_size_in_mb"):
            if getattr(retention, leaf) < -1:
                yield blamed("retention_policies", leaf), f"{leaf} is {getattr(retention, leaf)}: give -1 for no limit, 0, or more."


def retention_both_zero(judged: Judged) -> Iterator[Problem]:
    """Checks that both limits of retention are 0, or none is."""
    if judged.policies.HasField("retention_policies"):
        retention = judged.policies.retention_policies
        if (retention.retention_time_in_minutes == 0) != (retention.retention_size_in_mb == 0):
            problem = "One limit of retention is 0 and the other is not: give -1 for no limit, or set both to 0 to keep nothing."
            yield blamed("retention_policies"), problem


def quorums_positive(judged: Judged) -> Iterator[Problem]:
    """Checks that ensemble and quorums are above 0."""
    if judged.policies.HasField("persistence"):
        for leaf, _ in _PERSISTENCE:
            value = getattr(judged.policies.persistence, leaf)
            if value <= 0:
                yield blamed("persistence", leaf), f"{leaf} is {value}: at least 1 is needed."


def quorums_ordered(judged: Judged) -> Iterator[Problem]:
    """Checks that the ensemble is at least the write quorum, and the write quorum at least the ack quorum."""
    if judged.policies.HasField("persistence"):
        one = judged.policies.persistence
        if not one.bookkeeper_ensemble >= one.bookkeeper_write_quorum >= one.bookkeeper_ack_quorum:
            figures = f"{one.bookkeeper_ensemble}, {one.bookkeeper_write_quorum} and {one.bookkeeper_ack_quorum}"
            problem = f"Ensemble, write quorum and ack quorum are {figures}: none of them may be greater than the one before."
            yield blamed("persistence"), problem


def quorums_fit(judged: Judged) -> Iterator[Problem]:
    """Checks that ensemble and quorums are not above the brokers' maxima."""
    broker = judged.facts.broker
    if broker is not None and judged.policies.HasField("persistence"):
        for leaf, maximum in _PERSISTENCE:
            value, most = getattr(judged.policies.persistence, leaf), getattr(broker, maximum)
            if most is not None and value > most:
                yield blamed("persistence", leaf), f"{leaf} is {value}, and the brokers allow at most {most}: give no more than that."


def entry_filters_named(judged: Judged) -> Iterator[Problem]:
    """Checks that at least one entry filter is named."""
    if judged.policies.HasField("entry_filters") and not _filters(judged):
        yield (
            blamed("entry_filters", "entry_filter_names"),
            "No entry filter is named: name some, separated by commas, or clear entry_filters.",
        )


def entry_filters_known(judged: Judged) -> Iterator[Problem]:
    """Checks that the entry filters are installed, if it is known which are."""
    broker = judged.facts.broker
    if broker is not None and broker.entry_filters is not None:
        for name in _filters(judged):
            if name not in broker.entry_filters:
                problem = f'The entry filter "{name}" is not installed on the brokers: install it, or leave it out.'
                yield blamed("entry_filters", "entry_filter_names"), problem


def offload_driver(judged: Judged) -> Iterator[Problem]:
    """Checks that brokers know the offload driver."""
    if judged.policies.HasField("offload_policies"):
        driver = judged.policies.offload_policies.managed_ledger_offload_driver
        if driver.lower() not in map(str.lower, DRIVERS):
            told = f'"{driver}" is not an offload driver' if driver else "No offload driver is named"
            problem = f"{told}: give one of {', '.join(DRIVERS)}."
            yield blamed("offload_policies", "managed_ledger_offload_driver"), problem


def offload_bucket(judged: Judged) -> Iterator[Problem]:
    """Checks that there is a bucket to offload to, unless the driver is ``filesystem``."""
    if judged.policies.HasField("offload_policies"):
        offload = judged.policies.offload_policies
        driver = offload.managed_ledger_offload_driver.lower()
        if driver in map(str.lower, DRIVERS) and driver != "filesystem" and not _has_bucket(offload, driver):
            problem = f'The offload driver "{driver}" needs a bucket: give managed_ledger_offload_bucket.'
            yield blamed("offload_policies", "managed_ledger_offload_bucket"), problem


def subscription_rate_says_something(judged: Judged) -> Iterator[Problem]:
    """Checks that a subscription's own dispatch rate limits something."""
    for name in judged.keys("subscription_policies"):
        rate = judged.policies.subscription_policies[name].dispatch_rate
        if judged.policies.subscription_policies[name].HasField("dispatch_rate") and not (
            rate.dispatch_throttling_rate_in_msg > 0 or rate.dispatch_throttling_rate_in_byte > 0
        ):
            problem = "A subscription's rate without any limit is ignored by brokers: give a limit above 0, or clear the entry."
            yield blamed("subscription_policies", name, "dispatch_rate"), problem


def _filters(judged: Judged) -> list[str]:
    """Returns the names of the entry filters, each once."""
    names = map(str.strip, judged.policies.entry_filters.entry_filter_names.split(","))
    return list(filter(None, dict.fromkeys(names)))


def _has_bucket(offload: OffloadPolicies, driver: str) -> bool:
    own = _BUCKET_OF.get(driver)
    return bool(offload.managed_ledger_offload_bucket or (own is not None and getattr(offload, own)))
