"""Change logs: one protocol (``change_log``), three backends (``memory``, ``sqlite``, ``pulsar``) and one codec (``avro``)."""
