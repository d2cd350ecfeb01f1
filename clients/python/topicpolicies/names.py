"""Names of topics, read as Pulsar reads them."""

from __future__ import annotations

_SUFFIX = "-partition-"
_MOST = 2**31 - 1
"""The greatest index of a partition, which is an int32; a suffix with a greater number is part of the topic's name."""
_MOST_DIGITS = 10


def topic_name(text: str) -> str:
    """Returns a topic's full name: with its domain, ``persistent`` if none is given, and without a partition's suffix.

    ``orders-partition-3`` means ``orders``. ``orders-partition-03`` and ``orders-partition-99999999999`` are topics of their own, as they
    are for Pulsar (``TopicName.getPartitionIndex``, which takes decimal digits of every script that are one UTF-16 unit each). Only the
    service checks whether the name is valid.
    """
    full = text if "://" in text else f"persistent://{text}"
    base, _, index = full.rpartition(_SUFFIX)
    return base if base and _is_partition(index) else full


def namespace_of(topic: str) -> str:
    """Returns ``tenant/namespace`` of a topic's name, which may lack its domain. Only the service checks whether the name is valid."""
    return "/".join(topic.rpartition("://")[2].split("/")[:2])


def _is_partition(index: str) -> bool:
    if not index.isdecimal() or len(index) > _MOST_DIGITS or max(index) > "\uffff":
        return False
    return int(index) <= _MOST and len(str(int(index))) == len(index)
