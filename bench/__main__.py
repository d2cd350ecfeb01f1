"""``python -m bench``: single updates, by how many are in flight, beside an empty echo, the admin API, and bare publishes."""

import sys

from bench.figures.command import main

sys.exit(main(["--only", "updates", "updates-pulsar", *sys.argv[1:]]))
