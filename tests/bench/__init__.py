"""The load harness: what it records and judges, on the real service and on variants with bugs."""
