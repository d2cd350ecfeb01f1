"""One sidecar at a time writes a log: tested with real server processes that are killed and suspended, on a real broker."""
