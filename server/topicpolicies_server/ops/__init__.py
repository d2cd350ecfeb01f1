"""What operators see of a process: ``log`` has its lines, ``metrics`` and ``http`` its metrics and probes."""
