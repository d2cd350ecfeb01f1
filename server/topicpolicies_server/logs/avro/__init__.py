"""The Avro codec: events of the core to and from the messages of ``__change_events``.

Avro is what brokers read and write (``org.apache.pulsar.common.events.PulsarEvent``); the embedded log writes the same bytes.

- ``schema``: a registered schema, its bounds, and pieces of it that fastavro writes and reads on their own
- ``fields``: one field of a document, between its setting's bytes and its Avro bytes, with what a newer broker has put there
- ``document``: a whole document, setting by setting
- ``envelope``: the bytes around the document in an event
- ``codec``: all of these together, with the message's key and properties
"""

from .codec import Codec, Dialect, Encoded
from .schema import PULSAR_4_2_4, UnsupportedSchema

__all__ = ["PULSAR_4_2_4", "Codec", "Dialect", "Encoded", "UnsupportedSchema"]
