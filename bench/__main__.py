"""``python -m bench``: updates beside their limits."""

import sys

from bench.side_by_side import main

sys.exit(main())
