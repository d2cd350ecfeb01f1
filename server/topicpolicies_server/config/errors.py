"""The error of a wrong configuration."""

from __future__ import annotations


class ConfigError(ValueError):
    """A configuration is wrong.

    Attributes:
        problems: everything that is wrong, a sentence each.
    """

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems
