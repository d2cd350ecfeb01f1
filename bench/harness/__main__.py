"""``python -m bench.harness``."""

import sys

from bench.harness.command import main

sys.exit(main())
