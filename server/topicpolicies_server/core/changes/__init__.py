"""Changes: a field mask and its values, checked, compiled, and applied to the document of a policy key."""
