"""The module that xdist executes in a test process: lends its channel to the forked session until that is over."""

if __name__ == "__channelexec__":
    from tests.once import lent

    lent.lend(channel)  # type: ignore[name-defined]  # noqa: F821
