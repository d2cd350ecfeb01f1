"""Every figure that the project promises, each beside its limit, measured side by side in one run.

python3 dev.py bench figures                    all of them; needs JDK 17 and Maven, etcd, and a machine that does nothing else
python3 dev.py bench figures --only updates     one group, or several
python3 dev.py bench figures --topics 1000000   another size of large namespaces
python3 dev.py bench figures --quick            very small amounts, which only try out the measurement
"""
