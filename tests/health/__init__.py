"""Tests of the health of a process and of how it is reported."""
