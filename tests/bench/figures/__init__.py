"""The one command that shows every figure beside its limit."""
