"""Declared policies: plan, apply and export."""
