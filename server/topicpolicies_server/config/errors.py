"""The error of a wrong configuration."""

from __future__ import annotations


class ConfigError(ValueError):
    """A configuration is wrong.

    Attributes:
        problems: all problems, a sentence each.
    """

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems
