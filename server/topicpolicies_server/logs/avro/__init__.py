"""The Avro codec: events of the core to and from the messages of ``__change_events``.

Avro is what brokers read and write (``org.apache.pulsar.common.events.PulsarEvent``); the embedded log writes the same bytes.
"""

from .codec import Codec, Dialect, Encoded
from .schema import PULSAR_4_2_4, UnsupportedSchema

__all__ = ["PULSAR_4_2_4", "Codec", "Dialect", "Encoded", "UnsupportedSchema"]
