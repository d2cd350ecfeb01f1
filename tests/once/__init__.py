"""The tests are collected once, not by each test process: on Linux one process collects them, and is forked for each test process.

pytest-xdist starts every test process from scratch, and each imports and collects all tests before it runs its share of them: three to
four seconds of processor time, more than some rooms take. Here the controlling process starts one more process (``collected``), which does
what a test process of xdist does until it receives the tests to run. xdist then starts a small program (``asking``) in place of each test
process. The program passes its streams to the collecting process, which forks: the fork is xdist's test process, with these streams, and a
number and a folder of its own.

| module | runs in |
|---|---|
| ``plugin`` | the controlling process |
| ``collected`` | the collecting process and its forks |
| ``asking`` | the program that xdist starts and takes for its test process |
| ``lent`` | a test process: its channel to xdist |
| ``executed`` | a test process: xdist sends this module in place of its own ``xdist.remote`` |

If nothing is forked (``--dist`` is not ``loadgroup``, or the system is not Linux), each process collects the tests as usual.
"""
