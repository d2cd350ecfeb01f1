"""The Avro codec: events of the core to and from the messages of ``__change_events``.

Avro is what brokers read and write (``org.apache.pulsar.common.events.PulsarEvent``); the embedded log writes the same bytes.

- ``schema``: a registered schema, compiled to types that read and write values
- ``fields``: the fields of a message type in one record of a schema, with what a newer broker has put there
- ``document``: a whole document, setting by setting
- ``codec``: all of these together, with the bytes around the document, and the message's key and properties
"""

from .codec import Codec, Dialect, Encoded
from .schema import PULSAR_4_2_4, UnsupportedSchema

__all__ = ["PULSAR_4_2_4", "Codec", "Dialect", "Encoded", "UnsupportedSchema"]
