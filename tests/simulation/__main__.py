"""Replays one run and prints its story, or makes many runs: ``python -m tests.simulation --help``."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from .loop import Stuck
from .profile import PROFILES
from .report import joins, story, sums, verdict
from .run import run


def main() -> int:
    """Returns 1 if a promise was broken."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation", description="Runs the service in simulated time and judges what it did."
    )
    parser.add_argument("--profile", choices=sorted(PROFILES), help="one profile only; all otherwise")
    parser.add_argument("--seed", type=int, help="replay this seed and print its story")
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds to run of each profile (default: 200)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them (default: 0)")
    options = parser.parse_args()
    profiles = [options.profile] if options.profile else sorted(PROFILES)
    if options.seed is not None:
        if len(profiles) != 1:
            parser.error("--seed needs --profile")
        one = run(profiles[0], options.seed)
        print(story(one))
        return 1 if one.broken else 0
    failed = False
    for name in profiles:
        failed = _many(name, range(options.first, options.first + options.seeds)) or failed
    return 1 if failed else 0


def _many(name: str, seeds: range) -> bool:
    counts: Counter[str] = Counter()
    failures = 0
    began = time.perf_counter()
    for seed in seeds:
        try:
            one = run(name, seed)
        except Stuck as stuck:
            failures += 1
            print(f"{stuck}\nreplay: python -m tests.simulation --profile {name} --seed {seed}")
            continue
        counts += one.counts
        failures += bool(one.broken)
        print("".join(f"{line}\n" for line in verdict(one)), end="")
    took = time.perf_counter() - began
    summary = "\n".join(filter(None, (joins(counts, len(seeds)), sums(counts))))
    print(f"{name}: {len(seeds)} seeds in {took:.1f} s, {failures} with broken promises\n{summary}")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
