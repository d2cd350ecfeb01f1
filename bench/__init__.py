"""Measurements. Ratios of one run count; absolute figures belong to the machine."""
