"""The Avro codec: events of the core to and from the messages of ``__change_events``.

Avro is what brokers read and write (``org.apache.pulsar.common.events.PulsarEvent``); the embedded log writes the same bytes.

- ``schema``: a registered schema, and pieces of it that fastavro writes on their own
- ``bounds``: what a schema may be so that reading with it takes no more than what is read
- ``names``: how the schema names what Protobuf names otherwise
- ``extras``: values of a newer broker that our definition has no place for
- ``records``: one object of a document, between its message and Avro's value
- ``document``: a whole document, setting by setting
- ``envelope``: what stands around a document in an event
- ``headers``: the same for all topics of a namespace, to find a document without decoding
- ``codec``: all of it together, with the message's key and properties
"""

from .codec import Codec, Dialect, Encoded
from .headers import Unreadable
from .schema import PULSAR_4_2_4, UnsupportedSchema

__all__ = ["PULSAR_4_2_4", "Codec", "Dialect", "Encoded", "Unreadable", "UnsupportedSchema"]
