"""A real Pulsar broker for tests and measurements: its jars (``jars``), its process (``pulsar_broker``), its admin API (``admin``)."""
