"""The system's own openssl (1.1.1 or later), which makes keys and certificates: it comes with its security updates."""

import secrets
import subprocess
from pathlib import Path

from gputune.core.errors import GputuneError
from gputune.core.hygiene import clean

AUTHORITY_DAYS, DAYS = 3650, 825  # some systems refuse certificates that are valid for longer than the latter
EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
CONFIG = """
[req]
distinguished_name = dn
prompt = no
[dn]
CN = {cn}
[ca]
basicConstraints = critical,CA:TRUE,pathlen:0
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = {names}
[client]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""


def authority(folder: Path, settings: Path) -> None:
    """Make an authority: its key and its certificate."""
    run(
        "req", "-x509", *EC, "-keyout", folder / "ca.key", "-out", folder / "ca.pem", "-days", str(AUTHORITY_DAYS),
        "-config", settings, "-extensions", "ca",
    )  # fmt: skip


def sign(folder: Path, place: Path, side: str, settings: Path) -> None:
    """Make a key and its certificate for one half, each put in its place in one move."""
    key, certificate, request = place / f".{side}.key", place / f".{side}.pem", place / ".request"
    try:
        run("req", "-new", *EC, "-keyout", key, "-out", request, "-config", settings)
        run(
            "x509", "-req", "-in", request, "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", "-out", certificate,
            "-days", str(DAYS), "-set_serial", f"0x{secrets.token_hex(16)}", "-sha256", "-extfile", settings,
            "-extensions", side,
        )  # fmt: skip
        for file in (key, certificate):
            file.chmod(0o600)
            file.rename(place / file.name.removeprefix("."))
    finally:
        for file in (key, certificate, request):
            file.unlink(missing_ok=True)


def run(*words: str | Path) -> str:
    """Return what openssl prints. Raises GputuneError."""
    try:
        done = subprocess.run(
            ["openssl", *map(str, words)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            umask=0o077,
            timeout=60,
            check=False,
        )
    except FileNotFoundError:
        hint = "install openssl, or use certificates of your own: docs/agents.md"
        raise GputuneError("`openssl` is not installed, and it is what makes certificates", hint=hint) from None
    if done.returncode:
        said = clean(
            done.stderr.decode(errors="replace").strip().splitlines()[-1] if done.stderr.strip() else "nothing"
        )
        raise GputuneError(f"`openssl {words[0]}` failed: {said}", hint="`openssl version` should say 1.1.1 or later")
    return done.stdout.decode(errors="replace").strip()
