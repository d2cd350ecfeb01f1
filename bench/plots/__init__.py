"""The plots of ``docs/benchmarks.md``: drawn from the figures that stand there, so that the two never disagree.

    python3 dev.py bench plots              draws them anew, and puts them behind the figures that they show
    python3 dev.py bench plots --check      says which are not what the page says

``tables`` reads the page's tables, ``svg`` draws bars and curves, ``drawn`` says what is drawn of which table.
"""
