"""``python -m bench``: updates only, one a call and in batches."""

import sys

from bench.figures.__main__ import main

sys.exit(main(["--only", "updates", "updates-pulsar", *sys.argv[1:]]))
