"""The tests are collected once, and not by each test process: on Linux one process collects them, and is forked for each of xdist's.

pytest-xdist starts every test process anew, and each imports and collects all tests before it runs its share of them: three to four seconds
of processor time, more than some rooms take. Here the process that runs all starts one more (``collected``), which goes as far as a test
process of xdist does before it is told what to run. What xdist then starts is a small program (``asking``) that hands its streams to that
process, which forks: what is forked is xdist's test process, with these streams, and a number and a folder of its own.

| module | runs in |
|---|---|
| ``plugin`` | the process that runs all |
| ``collected`` | the one that collects, and what is forked from it |
| ``asking`` | what xdist starts and takes for its test process |
| ``lent`` | a test process: what it has of xdist |
| ``executed`` | a test process: xdist sends it there, where its own ``xdist.remote`` would be |

Where nothing is forked (``--dist`` is not ``loadgroup``, or another system), each process collects as ever.
"""
