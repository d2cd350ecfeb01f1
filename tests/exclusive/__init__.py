"""One sidecar at a time writes a log: shown on real server processes that are killed and stopped, on a real broker."""
