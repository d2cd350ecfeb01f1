"""The lines of a process."""
