"""Measurements. The ratios of one run count; absolute figures depend on the machine."""
