"""Archives of the classes of brokers (class data sharing), with which they start in two thirds of the time and of the processor time.

``python -m tests.broker.archive`` resolves the jars of all brokers, and makes the archive of the newest one by starting and stopping it. A
broker without an archive starts too.
"""

import hashlib
import subprocess
import sys
import time
from pathlib import Path

from tests.broker.jars import LATEST, LOG4J_OF, BrokerUnavailableError, class_archive, jars, java
from tests.broker.pulsar_broker import OwnBroker


def make(version: str) -> str:
    """Makes the archive of a version if there is none, and returns a line that says what was done.

    Raises:
        BrokerUnavailableError: the broker can't be run here.
    """
    began = time.monotonic()
    lib = jars(version)
    path, stamp = class_archive(version)
    wanted = _fingerprint(lib)
    if path.is_file() and stamp.is_file() and stamp.read_text() == wanted:
        return f"broker {version}: its classes are archived"
    stamp.unlink(missing_ok=True)
    path.unlink(missing_ok=True)
    broker = OwnBroker(version, java_options=["-XX:TieredStopAtLevel=1", f"-XX:ArchiveClassesAtExit={path}"])
    try:
        broker.start()
        broker.stop(timeout_s=120)
    finally:
        broker.close()
    if not path.is_file():
        return f"broker {version}: this Java archives no classes; brokers start more slowly"
    stamp.write_text(wanted)
    return f"broker {version}: {path.stat().st_size >> 20} MB of classes archived ({time.monotonic() - began:.0f} s)"


def _fingerprint(lib: Path) -> str:
    """Returns a hash of what an archive depends on: the version of Java, and the jars with their times."""
    java_version = subprocess.run([java(), "-version"], capture_output=True, check=True).stderr
    jar_times = "".join(f"{jar.name} {jar.stat().st_mtime_ns}" for jar in sorted(lib.glob("*.jar")))
    return hashlib.sha256(java_version + jar_times.encode()).hexdigest()


def main() -> int:
    """Has all brokers at hand. Returns 1 if one can't be run here."""
    try:
        for version in LOG4J_OF:
            print(f"broker {version}: {jars(version)}", flush=True)
        print(make(LATEST))
    except BrokerUnavailableError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
