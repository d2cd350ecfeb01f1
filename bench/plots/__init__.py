"""The plots of ``docs/benchmarks.md``, drawn from the figures on that page, so that the two never disagree.

    python3 dev.py bench plots              draws them anew, and puts them behind the figures that they show
    python3 dev.py bench plots --check      lists those that differ from the page

``tables`` reads the page's tables, ``drawn`` defines which table is drawn how.
"""
