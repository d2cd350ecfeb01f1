"""Change logs: one protocol (``change_log``), two backends (``sqlite``, ``pulsar``) and one codec (``avro``)."""
