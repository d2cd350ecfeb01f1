"""What xdist has a test process execute: it lends its channel to the session that was forked, until that is over."""

if __name__ == "__channelexec__":
    from tests.once import lent

    lent.lend(channel)  # type: ignore[name-defined]  # noqa: F821
