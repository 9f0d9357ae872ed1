"""Strings from elsewhere made fit to be shown and to be kept: control characters visible, secrets masked.

Whatever came from another process (arguments, names, paths, messages) passes `clean` before it reaches a terminal, a
report or a screen: an escape sequence in a process name can write an operator's clipboard.
"""

import re
from collections.abc import Iterable

MASK = "***"

_CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0, DEL, C1
    "\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # zero width, bidi, separators
    "\U000e0000-\U000e007f"  # tags: invisible ASCII
    "\ud800-\udfff]"  # bytes that were no UTF-8, and what cannot be encoded at all
)
_SURROGATES = re.compile("[\ud800-\udfff]")

# The last word of a name that holds a secret, as the names are written in options, variables and settings.
_WORD = (
    r"(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|credentials?|cookie|auth(?:orization)?|bearer|"
    r"(?:api|access|secret|private|signing|encryption|license|account|wandb|hf)[-_.]?key|apikey|pat|dsn|sas)"
)
_NAME = re.compile(rf"^-{{0,2}}(?:[\w.\-]*[-_.])?{_WORD}(?:[-_.](?:id|value|string|key))?$", re.IGNORECASE)
_PAIR = re.compile(r"^(?P<name>-{0,2}[\w.\-]+)(?P<sign>[=:])(?P<value>.+)$", re.DOTALL)
# What may stand in front of a word is bound to a place where it can begin: arguments of 100 KB must not take minutes.
_URL = re.compile(r"(?P<head>[a-z0-9+.\-]://[^\s/:@]*:)[^\s/@]+(?=@)", re.IGNORECASE)
_URL_ALONE = re.compile(r"(?P<head>[a-z0-9+.\-]://)[^\s/:@]{16,}(?=@)", re.IGNORECASE)  # a token as user name
_QUERY = re.compile(rf"(?P<head>[?&;][\w.\-]*{_WORD}=)[^&\s#;]+", re.IGNORECASE)
_INLINE = re.compile(
    rf"(?P<head>(?<![\w.\-])(?:[\w.\-]*[-_.])?{_WORD}[\"']?\s*[=:]\s*[\"']?)(?!\*\*\*)[^\s\"',;&]+", re.IGNORECASE
)
_FLAG_INLINE = re.compile(rf"(?P<head>(?<![\w.\-])--(?:[\w.\-]*[-_.])?{_WORD}\s+)(?!-)[^\s\"']+", re.IGNORECASE)
_BEARER = re.compile(r"(?P<head>\b(?:bearer|basic|token)\s+)[\w.~+/=\-]{8,}", re.IGNORECASE)
# Secrets that are known by their own look, wherever they stand.
_LOOKS = re.compile(
    r"\b(?:"
    r"sk-[\w\-]{16,}|hf_\w{16,}|gh[pousr]_\w{16,}|github_pat_\w{20,}|glpat-[\w\-]{16,}|xox[abeprs]-[\w\-]{10,}|"
    r"(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w\-]{30,}|npm_\w{20,}|pypi-[\w\-]{20,}|dop_v1_\w{20,}|"
    r"eyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]*|"
    r"local-[0-9a-f]{40}|wandb_v1_\w{20,}"
    r")"
)
_WANDB = re.compile(r"^[0-9a-f]{40}$")  # a bare key of W&B; a git commit looks the same, and loses nothing by a mask


def clean(text: str, limit: int = 200) -> str:
    r"""Return `text` with C0, DEL, C1, bidi and zero-width characters made visible (`\x1b`, `\u202e`), clipped.

    The result is one line of at most `limit` characters; what was clipped is shown as `…`.
    """
    shown = _CONTROLS.sub(_visible, text[: limit + 1])
    return shown if len(shown) <= limit and len(text) <= limit else shown[: max(0, limit - 1)] + "…"


def is_clean(text: str) -> bool:
    """Return whether `clean` would find nothing to make visible."""
    return _CONTROLS.search(text) is None


def as_text(value: str) -> str:
    r"""Return `value` as text that can be encoded: bytes of a name that were no UTF-8 become visible (`\xff`)."""
    return _SURROGATES.sub(_visible, value)


def _visible(match: "re.Match[str]") -> str:
    code = ord(match.group())
    if 0xDC80 <= code <= 0xDCFF:  # surrogateescape: a byte of a name that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code <= 0xFF:
        return {9: "\\t", 10: "\\n", 13: "\\r"}.get(code, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def mask(arguments: Iterable[str]) -> tuple[str, ...]:
    """Return a command's arguments with secrets replaced by `***`, for a file that others may read.

    Masked: the value of an option or `NAME=VALUE` whose name says password, token, key, secret ..., passwords in
    URLs, and what is a key by its own look. An argument that only holds one (a script after `-c`) keeps the rest.
    """
    masked: list[str] = []
    hide = False
    for argument in arguments:
        if hide and not (argument.startswith("--") and len(argument) > 2):
            masked.append(MASK)
            hide = False
            continue
        hide = argument.startswith("-") and bool(_NAME.match(argument))
        masked.append(_masked(argument))
    return tuple(masked)


def _masked(argument: str) -> str:
    pair = _PAIR.match(argument)
    if pair and "://" not in argument[: pair.end("sign") + 2] and _NAME.match(pair["name"]):
        return f"{pair['name']}{pair['sign']}{MASK}"
    if _WANDB.match(argument):
        return MASK
    for pattern in (_URL, _URL_ALONE, _QUERY, _BEARER, _INLINE, _FLAG_INLINE):
        argument = pattern.sub(rf"\g<head>{MASK}", argument)
    return _LOOKS.sub(MASK, argument)
