"""The clients of all languages: what they must have in common, and their own tests and examples, run against servers of this project."""
