"""Tests of the command that measures every figure and compares it with its limit."""
