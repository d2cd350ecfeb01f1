"""``python -m bench.figures``."""

import sys

from bench.figures.command import main

sys.exit(main())
