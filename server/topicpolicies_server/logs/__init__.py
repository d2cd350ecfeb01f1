"""Change logs: one protocol (``change_log``), three backends (``memory``, ``sqlite``, ``pulsar``), one codec (``avro``)."""
