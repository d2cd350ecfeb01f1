"""Resolves the jars of a Pulsar broker through Maven, once per version, into a cache directory.

A broker needs no Pulsar distribution and no container engine: the jars that ``pulsar-broker`` depends on are enough, with Java 17 or
newer. ``python -m tests.broker.archive`` resolves those of all versions.
"""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

VERSION_VARIABLE = "TOPICPOLICIES_BROKER"
"""The environment variable that names the release for tests that name none."""

LATEST = os.environ.get(VERSION_VARIABLE, "4.2.4")
"""The release that tests use by default: the newest one, unless the variable names another."""

LOG4J_OF = {"4.2.4": "2.25.2", "4.0.0": "2.23.1"}
"""The releases that can be run, each with the log4j of its own distribution. 4.0.0 is the one without PIP-428."""

CACHE_VARIABLE = "TOPICPOLICIES_CACHE"
"""The environment variable that replaces the cache directory ``.cache`` in the checkout."""

_MINIMUM_JAVA = 17
_ROOT = Path(__file__).resolve().parents[2]
_POM = Path(__file__).with_name("pom.xml")
_STAMP = "resolved"

# Old poms name repositories that do not exist any more. Everything that a broker needs is in Maven's built-in `central`.
ONLY_CENTRAL = """<settings>
  <mirrors>
    <mirror><id>nothing</id><mirrorOf>*,!central</mirrorOf><url>{empty}</url></mirror>
  </mirrors>
</settings>
"""
"""Maven settings that disable every repository but Central; ``empty`` stands for the URI of an empty directory."""


class BrokerUnavailableError(Exception):
    """No broker can be run here; the message says what is missing."""


def cache() -> Path:
    """Returns the directory for jars, broker data and broker logs."""
    return Path(os.environ.get(CACHE_VARIABLE) or _ROOT / ".cache").resolve()


def java() -> Path:
    """Returns the Java that runs brokers: that of ``JAVA_HOME`` if it is set, otherwise the one on the path.

    Raises:
        BrokerUnavailableError: there is none, or it is older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on the path"
        raise BrokerUnavailableError(f"JDK {_MINIMUM_JAVA} or newer is missing: no java {where}.")
    answer = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    if version is None or int(version[1]) < _MINIMUM_JAVA:
        lines = (answer.stderr or answer.stdout).strip().splitlines()
        raise BrokerUnavailableError(f"JDK {_MINIMUM_JAVA} or newer is missing: {found} says {lines[0] if lines else 'nothing'}.")
    return Path(found)


def jars(version: str = LATEST) -> Path:
    """Returns the directory with the jars of a broker; resolves them through Maven if they are incomplete (240 MB, about a minute).

    Raises:
        BrokerUnavailableError: the version is not one of ``LOG4J_OF``, Java or Maven is missing, or Maven failed.
    """
    if version not in LOG4J_OF:
        raise BrokerUnavailableError(f"Pulsar {version} is not among the versions known here: {', '.join(LOG4J_OF)}.")
    home = cache() / f"pulsar-{version}"
    lib, stamp = home / "lib", home / _STAMP
    wanted = _fingerprint(version)
    if stamp.is_file() and stamp.read_text().split() == [wanted, str(_count(lib))]:
        return lib
    java()
    maven = shutil.which("mvn")
    if maven is None:
        raise BrokerUnavailableError("Maven (mvn) is missing: it resolves the jars of the Pulsar broker that the tests run against.")
    home.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    shutil.rmtree(lib, ignore_errors=True)
    _resolve(maven, version, home)
    stamp.write_text(f"{wanted} {_count(lib)}\n")
    return lib


def class_archive(version: str) -> tuple[Path, Path]:
    """Returns the paths of the archive of a broker's classes (``tests/broker/archive``) and of the stamp of a complete archive."""
    home = cache() / f"pulsar-{version}"
    return home / "classes.jsa", home / "classes.made"


def _resolve(maven: str, version: str, home: Path) -> None:
    """Resolves the jars with the machine's own Maven settings, which may name a mirror; if that fails, from Central only."""
    command = [maven, "--batch-mode", "--no-transfer-progress", "--strict-checksums", f"--file={_POM}"]
    command += [f"-Dpulsar.version={version}", f"-Dlog4j.version={LOG4J_OF[version]}"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={home / 'lib'}", "dependency:copy-dependencies"]
    log = home / "maven.log"
    if _succeeds(command, log):
        return
    empty = home / "empty"
    empty.mkdir(exist_ok=True)
    settings = home / "settings.xml"
    settings.write_text(ONLY_CENTRAL.format(empty=empty.as_uri()))
    if not _succeeds([*command, f"--settings={settings}"], log):
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        raise BrokerUnavailableError(f"Maven could not resolve the jars of Pulsar {version}; the end of {log}:\n{tail}")


def _succeeds(command: list[str], log: Path) -> bool:
    variables = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", **os.environ}  # half of the processor time for a short run
    with log.open("wb") as out:
        done = subprocess.run(command, env=variables, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=False)
    return done.returncode == 0


def _fingerprint(version: str) -> str:
    return hashlib.sha256(_POM.read_bytes() + f"{version} {LOG4J_OF[version]}".encode()).hexdigest()


def _count(lib: Path) -> int:
    return sum(1 for _ in lib.glob("*.jar"))
