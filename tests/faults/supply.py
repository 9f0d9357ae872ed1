"""What gputune is shipped on: the licence of each package that it needs, and what is known against them.

`make audit`. A package without a licence fails it. Known holes are asked of `pip-audit`, where that and a network are
at hand; where not, that is said, and nothing was tried.
"""

import importlib.util
import re
import subprocess
import sys
from importlib import metadata

ASKED = 120.0  # s


def needed(name: str, found: dict[str, str]) -> dict[str, str]:
    """Return every package that one needs, without extras, with its licence ("" where it names none)."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return found  # for another Python or system
    found[name.lower()] = licence(about)
    for need in metadata.requires(name) or ():
        other = re.split(r"[\s;<>=!~\[(]", need, maxsplit=1)[0]
        if "extra ==" not in need and other.lower() not in found:
            needed(other, found)
    return found


def licence(about: "metadata.PackageMetadata") -> str:
    """Return what a package says of its licence, in a few words."""
    kinds = [kind.rpartition(" :: ")[2] for kind in about.get_all("Classifier") or () if kind.startswith("License")]
    named = about.get("License-Expression") or ", ".join(kinds) or about.get("License") or ""
    return named.strip().partition("\n")[0][:60]


def main() -> int:
    """Print the list, and what pip-audit has to say."""
    found = needed("gputune", {})
    for name, named in sorted(found.items()):
        print(f"{name:24} {named or 'NO LICENCE IS NAMED'}")
    if not all(found.values()):
        return 1
    if importlib.util.find_spec("pip_audit") is None:
        print("pip-audit: SKIPPED, it is not installed: nothing was asked of known holes")
        return 0
    done = subprocess.run((sys.executable, "-m", "pip_audit", "--progress-spinner", "off"), check=False, timeout=ASKED)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
