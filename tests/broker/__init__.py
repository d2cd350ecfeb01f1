"""A real Pulsar broker for tests and measurements: its jars (``jars``), its life (``pulsar_broker``), its admin API (``admin``)."""
