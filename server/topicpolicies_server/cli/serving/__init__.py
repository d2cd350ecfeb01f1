"""The commands that run a server or a guard, and the one that shows with which options."""
