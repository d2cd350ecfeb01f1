"""Tests of the measurements and of the load harness, with the real service and with variants that have planted bugs."""
