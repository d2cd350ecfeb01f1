"""What all rooms share."""

from hypothesis import settings

pytest_plugins = ["tests.broker.fixtures", "tests.spark.fixtures"]

# How long one example takes says more about the machine than about the code; a test that hangs is ended by its timeout.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
