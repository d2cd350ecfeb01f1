"""Tests of the lines that a process writes to its log."""
