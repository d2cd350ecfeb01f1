"""The Avro codec: events of the core to and from the messages of ``__change_events``.

Avro is what brokers read and write (``org.apache.pulsar.common.events.PulsarEvent``); the embedded log writes the same bytes.

- ``schema``: a registered schema, and pieces of it that fastavro writes and reads on their own
- ``bounds``: limits of a schema, so that reading with it takes time and memory in proportion to the data
- ``names``: the Avro names of what has another name in Protobuf
- ``extras``: values of a newer broker that our definition has no place for
- ``records``: one object of a document, between its Protobuf message and its Avro value
- ``fields``: one field of a document, between its setting's bytes and its Avro bytes
- ``sparse_record``: reads the fields of a record that say something, and skips the others
- ``document``: a whole document, setting by setting
- ``envelope``: the bytes around the document in an event
- ``headers``: the bytes around the document for all topics of a namespace, to find a document without decoding the event
- ``codec``: all of these together, with the message's key and properties
"""

from .codec import Codec, Dialect, Encoded
from .headers import Unreadable
from .schema import PULSAR_4_2_4, UnsupportedSchema

__all__ = ["PULSAR_4_2_4", "Codec", "Dialect", "Encoded", "Unreadable", "UnsupportedSchema"]
