"""What gputune is shipped on: the licence of each package that it needs, and what is known against them.

`make audit`. A package without a licence fails it, and so does a hole that `pip-audit` knows. That asks the network:
what it could not ask about is said, and is no all-clear.
"""

import json
import re
import subprocess
import sys
import tempfile
from importlib import metadata

ASKED = 120.0  # s
OURS = re.compile(r"extra == ['\"](dev|demo)['\"]")  # what its developers need, and no user


def needed(name: str, found: dict[str, str], extras: re.Pattern[str]) -> dict[str, str]:
    """Return every package that one needs, but for `extras`, with its licence ("" where it names none)."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return found  # for another Python or system, or an extra that is not installed
    found[name.lower()] = licence(about)
    for need in metadata.requires(name) or ():
        other = re.split(r"[\s;<>=!~\[(]", need, maxsplit=1)[0]
        if not extras.search(need) and other.lower() not in found:
            needed(other, found, re.compile("extra =="))
    return found


def licence(about: "metadata.PackageMetadata") -> str:
    """Return what a package says of its licence, in a few words."""
    kinds = [kind.rpartition(" :: ")[2] for kind in about.get_all("Classifier") or () if kind.startswith("License")]
    named = about.get("License-Expression") or ", ".join(kinds) or about.get("License") or ""
    return named.strip().partition("\n")[0][:60]


def holes(auditor: str, names: list[str]) -> int:
    """Print what is known against packages; return how many of them have a hole. `auditor`: a Python with pip-audit."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as asked:
        asked.writelines(f"{name}=={metadata.version(name)}\n" for name in names)
        asked.flush()
        how = ("--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json", "--requirement")
        command = (auditor, "-m", "pip_audit", *how, asked.name)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ASKED)
    try:
        told = json.loads(done.stdout)["dependencies"]
    except (ValueError, LookupError):
        print(f"pip-audit: SKIPPED, nothing was asked: {(done.stderr.strip() or 'no word')[-300:]}")
        return 0
    bad = [each for each in told if each.get("vulns")]
    for each in bad:
        print(f"pip-audit: {each['name']} {each['version']}: {', '.join(hole['id'] for hole in each['vulns'])}")
    silent = [each["name"] for each in told if "vulns" not in each]
    print(f"pip-audit: {len(told) - len(silent)} packages were asked about, {len(bad)} have holes")
    if silent:
        print(f"pip-audit: SKIPPED {', '.join(silent)}: nothing could be asked of them here")
    return len(bad)


def main(auditor: str) -> int:
    """Print the list, and what pip-audit has to say."""
    found = needed("gputune", {}, OURS)
    for name, named in sorted(found.items()):
        print(f"{name:24} {named or 'NO LICENCE IS NAMED'}")
    broken = holes(auditor, sorted(found.keys() - {"gputune"}))
    return 1 if broken or not all(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2] or [sys.executable]))
