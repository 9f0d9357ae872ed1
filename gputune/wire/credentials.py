"""Who may talk to an agent: certificates and tokens, made by `gputune agent --init` and read back by both sides.

    ca.key, ca.pem                              the authority: it stays where it was made, and signs what is made later
    server/{server.key,server.pem,ca.pem,token} for the nodes
    client/{client.key,client.pem,ca.pem,token} for where you look from
    nodes/NAME/…                                as server/, with a key of its own: for that node alone

A node's file `token` may hold the one before in a second line: it lets in who has not got the new one yet.

They are made with the system's own openssl (1.1.1 or later), which comes with nearly every system and with its security
updates: `--init` alone needs it, and certificates of your own do as well. Folders are 0700, files 0600.
"""

import hmac
import ipaddress
import os
import re
import secrets
import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gputune.core.errors import BadUsage
from gputune.core.hygiene import clean
from gputune.wire import openssl
from gputune.wire.messages import LINK_ALPN

SERVER, CLIENT, NODES = "server", "client", "nodes"
LEAST_TOKEN = 16  # characters; those made here have 43
_NAME = re.compile(r"(?:\*\.)?[A-Za-z0-9](?:[A-Za-z0-9\-]{0,62})(?:\.[A-Za-z0-9][A-Za-z0-9\-]{0,62}){0,9}")


class NoCredentials(BadUsage):
    """What an agent, or who wants to talk to one over a network, cannot do without."""

    def __init__(self, says: str) -> None:
        super().__init__(says, hint="`gputune agent --init` makes them for this machine: docs/agents.md")


@dataclass(frozen=True, slots=True)
class Credentials:
    """One side's half: PEM texts and the token. `key` and `certificate` are empty where a client has none."""

    authority: bytes
    token: str
    certificate: bytes = b""
    key: bytes = b""
    folder: Path = Path()
    former: str = ""  # the token before, which a node still takes

    @property
    def accepted(self) -> tuple[str, ...]:
        """Return the tokens that an agent takes."""
        return (self.token, self.former) if self.former else (self.token,)


def is_one_of(given: bytes, tokens: Sequence[str]) -> bool:
    """Return whether what was given is one of the tokens; how long that takes tells nothing of them."""
    found = [hmac.compare_digest(given, token.encode()) for token in tokens]  # all of them are looked at
    return any(found)


def home() -> Path:
    """Return where they lie unless somebody says otherwise."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base.startswith("/") else Path("~/.config").expanduser()) / "gputune" / "agent"


def read(folder: Path, side: str) -> Credentials:
    """Return one side's credentials, from a folder that `make` wrote or from its half of one.

    Raises NoCredentials where there are none, BadUsage where they are damaged or open to others.
    """
    where = folder / side if (folder / side).is_dir() else folder
    authority, lines = _read(where / "ca.pem"), _read(where / "token").decode(errors="replace").strip().split("\n")
    _private(where / "token")
    # A node's file of tokens has 2 lines at the most
    token, former = lines[0], lines[1] if side == SERVER and len(lines) == 2 else ""
    if not all(map(_is_token, (token, former) if former else lines)):
        raise NoCredentials(f"`{where / 'token'}` holds no token of {LEAST_TOKEN} characters or more")
    certificate, key = where / f"{side}.pem", where / f"{side}.key"
    if side == CLIENT:
        _believable(where / "ca.pem", authority)
    if side == CLIENT and not certificate.exists():
        return Credentials(authority, token, folder=where)
    _private(key)
    return Credentials(authority, token, _read(certificate), _read(key), where, former)


def _is_token(text: str) -> bool:
    return len(text) >= LEAST_TOKEN and text.isascii() and text.isprintable() and " " not in text


def wanted(folder: Path | None) -> Credentials | None:
    """Return what is needed to ask agents over TCP: from the folder that was named, else from `home` if it is there."""
    if folder is not None:
        return read(folder, CLIENT)
    try:
        return read(home(), CLIENT)
    except NoCredentials:
        return None


def renewed(known: Credentials) -> Credentials:
    """Return what lies now where these credentials were read; they themselves where nothing can be read there."""
    for side in (CLIENT, SERVER):
        with suppress(BadUsage):
            found = read(known.folder, side)
            return found if side == CLIENT else Credentials(found.authority, found.token, folder=found.folder)
    return known


def between(folder: Path | None) -> Credentials:
    """Return what an agent asks another agent with: a client's half where it has one, else what its own half has.

    The latter is the same authority and token, without a certificate: not enough where the other one wants one.
    Raises NoCredentials.
    """
    base = folder or home()
    try:
        return read(base, CLIENT)
    except NoCredentials:
        own = read(base, SERVER)
        return Credentials(own.authority, own.token, folder=own.folder)


def context(folder: Path, *, mutual: bool) -> ssl.SSLContext:
    """Return how an agent speaks TLS: 1.3, and with `mutual` to those alone whose certificate its authority signed."""
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.minimum_version = ssl.TLSVersion.TLSv1_3
    found.set_alpn_protocols(["h2", LINK_ALPN])  # what gRPC speaks, which leaves where it is not agreed on; and ours
    try:
        found.load_cert_chain(folder / "server.pem", folder / "server.key")
        if mutual:
            found.verify_mode = ssl.CERT_REQUIRED
            found.load_verify_locations(folder / "ca.pem")
    except (OSError, ssl.SSLError) as error:
        raise NoCredentials(f"the certificate and key in `{folder}` cannot be used: {_why(error)}") from None
    return found


def make(folder: Path, names: Sequence[str], *, each: bool = False, rotate: bool = False) -> list[Path]:
    """Make an authority (unless there is one) and both halves, for nodes of these names; return what was written.

    `each`: a half with a key of its own for each of `names`, which joins what one node is called by commas; else one
    for all of them. `rotate`: a new token, and new keys and certificates of all that is there; nodes take the token
    before as well, up to the next time. Else a token that is there is kept, so that a name can be added. Raises
    BadUsage for what is no name, GputuneError where openssl is missing or fails.
    """
    halves = _halves(folder, names, each=each)
    if rotate:
        halves = {**_there(folder), **halves}
    if not halves:
        raise BadUsage("no name was given for the certificate", hint="`gputune agent --init --name m8 --name 10.0.0.8`")
    for place in (folder, folder / CLIENT, *([folder / NODES] if each else []), *halves):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.chmod(0o700)
    tokens = _tokens(folder, rotate=rotate)
    settings = folder / ".openssl.cnf"
    try:
        for place, alternative in {**halves, folder / CLIENT: "DNS:client"}.items():
            _write(settings, openssl.CONFIG.format(cn=f"gputune {secrets.token_hex(4)}", names=alternative).encode())
            if not ((folder / "ca.key").exists() and (folder / "ca.pem").exists()):
                openssl.authority(folder, settings)
            openssl.sign(folder, place, CLIENT if place == folder / CLIENT else SERVER, settings)
            _write(place / "ca.pem", (folder / "ca.pem").read_bytes())
            _write(place / "token", "".join(f"{x}\n" for x in tokens[: 1 if place == folder / CLIENT else 2]).encode())
    finally:
        settings.unlink(missing_ok=True)
    return sorted(file for file in folder.rglob("*") if file.is_file())


def _halves(folder: Path, names: Sequence[str], *, each: bool) -> dict[Path, str]:
    """Return the folder of each node's half that is asked for, and the names in its certificate."""
    if not each:
        return {folder / SERVER: ",".join(map(_alternative, names))} if names else {}
    groups = [[name.strip() for name in group.split(",")] for group in names]
    return {folder / NODES / group[0].replace("*", "_"): ",".join(map(_alternative, group)) for group in groups}


def _there(folder: Path) -> dict[Path, str]:
    """Return the same of all nodes' halves that are there, with the names that their certificates have now."""
    found = {}
    for file in sorted([*folder.glob(f"{SERVER}/server.pem"), *folder.glob(f"{NODES}/*/server.pem")]):
        said = openssl.run("x509", "-noout", "-ext", "subjectAltName", "-in", file).rpartition("\n")[2]
        names = [name.strip().removeprefix("IP Address:").removeprefix("DNS:") for name in said.split(",")]
        found[file.parent] = ",".join(map(_alternative, names))
    return found


def _tokens(folder: Path, *, rotate: bool) -> list[str]:
    """Return the tokens that nodes are to take, the one that counts first."""
    halves = [folder / SERVER, *sorted(folder.glob(f"{NODES}/*"))]
    files = [place / "token" for place in halves if (place / "token").exists()]
    old = [line for file in files[:1] for line in file.read_text().split("\n") if line]
    return [secrets.token_urlsafe(32), *old[:1]] if rotate or not old else old


def _alternative(name: str) -> str:
    """Return a name as openssl's configuration has it. What is neither a host's name nor an address is refused."""
    with suppress(ValueError):
        return f"IP:{ipaddress.ip_address(name)}"
    if not is_name(name):
        raise BadUsage(f"`{clean(name)}` is neither the name nor the address of a host", hint="like `--name m8`")
    return f"DNS:{name}"


def is_name(name: str) -> bool:
    """Return whether a text can be the name of a host in a certificate."""
    return _NAME.fullmatch(name) is not None and len(name) <= 253


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(1 << 18)  # B of a file of secrets
    except OSError as error:
        raise NoCredentials(f"`{clean(str(file))}` cannot be read: {error.strerror}") from None


def _believable(file: Path, authority: bytes) -> None:
    """Refuse what is no certificate. Else each node would seem to be down, and what is broken is ours.

    It is no NoCredentials, without which a screen goes on: they are there, and somebody counts on them.
    """
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=authority.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError):
        hint = "copy it again from where `gputune agent --init` made it: docs/agents.md"
        raise BadUsage(f"`{clean(str(file))}` is damaged: it holds no certificate of an authority", hint=hint) from None


def _private(secret: Path) -> None:
    """Refuse a key or token that others may read: who has it is us. A mounted one may be our group's, and not ours."""
    with suppress(OSError):
        about = secret.stat()
        refused = 0o077 if about.st_uid == os.geteuid() else 0o027
        if about.st_mode & refused:
            raise BadUsage(f"`{clean(str(secret))}` may be read by others", hint=f"chmod 600 {clean(str(secret))}")


def _write(file: Path, data: bytes) -> None:
    new = file.with_name(f".{file.name}.new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as opened:  # noqa: PTH123 - a descriptor
        opened.write(data)
    new.rename(file)


def _why(error: Exception) -> str:
    return clean((error.strerror if isinstance(error, OSError) else None) or str(error))
