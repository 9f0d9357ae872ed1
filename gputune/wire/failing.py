"""Why an agent cannot be reached, in one sentence: what gRPC says of it is for its own developers.

Asked only after a call has failed. The way to the agent is tried again, step by step, and the first step that fails is
the reason.
"""

import os
import re
import socket
import ssl
from typing import Literal, NamedTuple

from gputune.core.hygiene import clean
from gputune.wire.address import Address
from gputune.wire.credentials import Credentials

ROOT = 0
# What a certificate is not believed for, and OpenSSL's X509_V_ERR_ codes (x509_vfy.h) that say so.
UNBELIEVED = {
    "its certificate is for another name": {62, 64},  # of a host, of an address
    "its certificate is not valid at this time": {9, 10},  # not yet, no more
    # No issuer is known, a signature that does not fit, signed by itself, or by another of the same name.
    "its certificate was signed by another authority": {2, 7, 18, 19, 20, 21, 29, 30, 31},
}
PATIENCE = 1.0  # s for each step

State = Literal["down", "refused", "foreign"]  # of rows.LinkState


class Why(NamedTuple):
    """`down`: nobody there, it may come back; `refused`: it will have nothing to do with us; `foreign`: no agent."""

    state: State
    says: str


SILENT = Why("down", "its agent does not answer")
HUNG_UP = Why("down", "it hung up: too many connections, or no agent")


def why(address: Address, credentials: Credentials | None) -> Why:
    """Return why that agent does not answer."""
    try:
        if address.path:
            return _unix(address.path)
        return _tcp(address, credentials)
    except TimeoutError:
        return Why("down", f"did not answer within {PATIENCE:.0f} s")
    except OSError as error:
        return Why("down", clean(error.strerror or str(error)).lower())


def is_ours(path: str) -> bool:
    """Return whether a socket is this user's or root's; one that is not there is nobody's.

    In /tmp anybody may have put one where ours would be: what it says would be shown as what our machine does.
    """
    try:
        owners = {os.lstat(path).st_uid, os.stat(path).st_uid}  # noqa: PTH116 - a link, and what it leads to
    except OSError:
        return True
    return owners <= {ROOT, os.geteuid()}


def _unix(path: str) -> Why:
    if not is_ours(path):
        return Why("refused", "its socket belongs to another user")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as ours:
        ours.settimeout(PATIENCE)
        try:
            ours.connect(path)
        except FileNotFoundError:
            return Why("down", "no agent runs there: there is no such socket")
        except ConnectionRefusedError:
            return Why("down", "the agent has ended: nobody listens on its socket")
        except PermissionError:
            return Why("refused", "its socket belongs to another user")
    return SILENT


def _tcp(address: Address, credentials: Credentials | None) -> Why:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return Why("down", "its name does not resolve")
    try:
        host, port = found[0][4][:2]
        with socket.create_connection((str(host), int(port)), PATIENCE) as ours:
            return _tls(ours, address.host, credentials) if credentials else Why("refused", "no credentials for it")
    except ConnectionRefusedError:
        return Why("down", f"no agent listens on port {address.port}")
    except ConnectionResetError:
        return HUNG_UP


def _tls(ours: socket.socket, host: str, credentials: Credentials) -> Why:
    context = ssl.create_default_context(cadata=credentials.authority.decode("ascii", "replace"))
    context.set_alpn_protocols(["h2"])
    if credentials.key:
        context.load_cert_chain(credentials.folder / "client.pem", credentials.folder / "client.key")
    try:
        with context.wrap_socket(ours, server_hostname=host) as tls:
            if tls.selected_alpn_protocol() != "h2":
                return Why("foreign", "what listens there is no agent")
            return _after(tls)
    except ssl.SSLCertVerificationError as error:
        return _certificate(error)
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):  # a full door closes without a word: the second before 3.11.3
        return HUNG_UP
    except ssl.SSLError as error:
        if "ALERT" in (error.reason or "").upper():
            return Why("refused", f"it hung up during the handshake ({_words(error)})")
        return Why("foreign", "what listens there speaks no TLS")


def _after(tls: ssl.SSLSocket) -> Why:
    """See whether the agent takes our certificate."""
    # 0.5 s in which an agent that dislikes our certificate says so: TLS 1.3 tells it after the handshake
    tls.settimeout(0.5)
    try:
        if tls.recv(1):
            return SILENT
    except ssl.SSLError as error:
        if "CERTIFICATE" in (error.reason or "").upper():
            return Why("refused", "it wants a certificate that its own authority has signed")
        return Why("refused", f"it hung up after the handshake ({_words(error)})")
    except TimeoutError:
        return SILENT
    return Why("refused", "it hung up after the handshake")


def _certificate(error: ssl.SSLCertVerificationError) -> Why:
    says = next((says for says, codes in UNBELIEVED.items() if error.verify_code in codes), "")
    return Why("refused", says or f"its certificate is not believed ({clean(error.verify_message or '')})")


def _words(error: ssl.SSLError) -> str:
    return clean(re.sub(r"[^a-z0-9 ]", " ", (error.reason or "TLS").lower()))
