"""Changes: a field mask and its values, checked, compiled, and applied to whichever document there is."""
