"""Whether a process is well, and says so."""
