"""The clients of all languages: what they must agree on, and their own tests and examples, run against servers of ours."""
