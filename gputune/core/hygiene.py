"""Strings from elsewhere made fit to be shown and to be kept: control characters visible, secrets masked.

Whatever came from another process (arguments, names, paths, messages) passes `clean` before it reaches a terminal, a
report or a screen: an escape sequence in a process name can write an operator's clipboard.
"""

import json
import re
from collections.abc import Iterable

MASK = "***"
SENTENCE = 300  # characters of a text from outside that stands by itself
PHRASE = 60  # characters of one that stands in a sentence of ours: a place, a function, a command

_CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0, DEL, C1
    "\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # zero width, bidi, separators
    "\U000e0000-\U000e007f"  # tags: invisible ASCII
    "\ud800-\udfff]"  # bytes that were no UTF-8, and what cannot be encoded at all
)
_SURROGATES = re.compile("[\ud800-\udfff]")

# The last word of a name that holds a secret, as names are written in options, variables and settings: `db_password`,
# `apiKey`, `PGPASSWORD`. Those of the second kind end harmless words too: they stand alone, or behind a hyphen.
_END = (
    r"(?:passw(?:or)?ds?|passphrase|passcode|seed[-_]?phrase|mnemonic|secrets?|token|credentials?|cookie|authorization|bearer|signature|jwt|"
    r"(?:api|access|secret|private|signing|encryption|license|account|subscription)[-_.]?keys?)"
)
_ALONE = (
    r"(?:pass|pwd|pw|auth|pat|dsn|sas|sse-c(?:ustomer)?[-_.]key|"
    r"(?:wandb|hf|openai|anthropic|comet|neptune|clearml|azure|aws|gcp|google|github|gitlab|kaggle|s3|ssh|master|shared|"
    r"service|client|storage|app|auth|db|root|admin|user)[-_.]?key)"
)
# Of a group of settings that is called so: `secrets.hub`, and of one host or bucket: `account.key.me.example.com`.
_WITHIN = r"(?:(?:secrets|credentials)|(?:account|access|secret|api)[-_.]?key|\bsas)\.[\w.\-]+"
_CAMEL = r"(?-i:Auth|Pat|Pwd|Dsn|Sas)"
_MORE = (
    r"(?:[-_.](?:id|value|string|json|key|b64|base64|prod|production|staging|dev|test|live|new|old|primary|secondary))?"
)
_WORD = rf"(?:[\w.\-]*(?:{_WITHIN}|{_END}|[a-z0-9]{_CAMEL})|(?:[\w.\-]*[-_.])?{_ALONE}){_MORE}(?:[-_.]?[0-9]{{1,3}})?"
_NAME = re.compile(rf"^-{{0,2}}{_WORD}$", re.IGNORECASE)
_PAIR = re.compile(r"^(?P<name>-{0,2}[\w.\-]+)(?P<sign>[=:])(?P<value>.+)$", re.DOTALL)
# What may stand in front of a word is bound to a place where it can begin: arguments of 100 KB must not take minutes.
_START = r"(?<![\w.\-])"
_SIGN = r"(?:\s*(?::?=(?!=)|:(?!//))(?:\s*str\s*=)?|%3d)\s*"
_NOTHING = r"(?:pass|print|return|raise|continue|break|none|true|false|null)\b"  # no secret, whatever stands before it
_SHELLS_QUOTE = r"'\"'\"'|'\\''"  # one inside of a quoted line of a shell
_QUOTE = rf"[bruf]{{0,2}}(?P<quote>{_SHELLS_QUOTE}|\\?[\"'])"
_VALUE = r"(?!\*\*\*)(?:(?!(?P=quote)).)+"  # to the quote that ends it
# Options of one letter behind which these programs take a secret.
_PLAIN = {
    "-p": (
        *("sshpass", "mysql", "mysqldump", "mysqladmin", "ncftpput", "ncftpget", "7z", "7za", "login"),
        *("mongo", "mongosh", "mongodump", "mongorestore", "mongoimport", "mongoexport", "twine", "cqlsh", "rar"),
    ),
    "-P": ("zip", "unzip", "sqlcmd", "bcp", "tsql"),
    "-a": ("redis-cli",),
    "-b": ("curl",),  # cookies
    "-k": ("kaggle", "openssl"),
    "-t": ("fly", "flyctl"),
    "-N": ("ssh-keygen",),
    "-hp": ("rar",),
    "-w": ("ldapsearch", "ldapmodify", "ldapadd"),
}
_LETTERS = tuple(
    rf"(?P<head>\b(?:{'|'.join(programs)})\s(?:[^|;&\n]{{0,200}}?\s)?(?-i:{flag})\s?)(?!\*\*\*)(?:[\"'][^\"']+|[^\s\"'\-][^\s\"']*)"
    for flag, programs in _PLAIN.items()
)
# Options of these programs behind which a name and a secret follow, and what stands between the two.
_PAIRED = (
    ("http|https|xh", "-a|--auth", ":"),
    ("curl", "-E|--cert|--proxy-cert", ":"),
    ("smbclient|rpcclient|smbget|net", "-U|--user", "%"),
    ("lftp", "-u|--user", ","),
)
_PAIRS = tuple(
    rf"(?P<head>\b(?:{programs})\s(?:[^|;&\n]{{0,200}}?\s)?(?-i:{flags})[\s=]?[^\s{sign}]{{1,80}}{sign})(?!\*\*\*)[^\s\"']+"
    for programs, flags, sign in _PAIRED
)
# Of the words of options, what argparse and click take for the whole.
_BEGUN = (
    r"tok(?:en?)?|passw(?:or?|ord)?|passp(?:h(?:r(?:a(?:se?)?)?)?)?|secre?|cred(?:e(?:n(?:t(?:i(?:al?)?)?)?)?)?|"
    r"(?:api|access|secret|private)[-_]ke?"
)
_SHORTENED = rf"--(?:[\w.\-]*[-_.])?(?:{_BEGUN})"
_SETS = r"set|config|configure|create|setx|modify"  # `set NAME VALUE`
# What reads a secret.
_ASKS = r"login\b|-stdin\b|\bread\s+-\w*s|--?with-\w+|passw|passphrase|token|secret|credential|sudo\s+-\w*S"
_GIVES = r"\b(?:echo|printf)\s+(?:-\w+\s+|[\"']?%s(?:\\n)?[\"']?\s+)*"
# What begins with a program or an option of its own: of arguments, the words before one tell.
_BEHIND = (
    *_PAIRS,
    r"(?P<head>--from-literal[\s=][\"']?[\w.\-]{1,80}=)(?!\*\*\*)[^\s\"']+",  # of `kubectl create secret`
    rf"(?P<head>{_START}(?:add-?)?auth-?token\s+)(?!-|\*\*\*)[^\s\"']+",  # `ngrok authtoken …`
    r"(?P<head>\blogin\s+\S{1,80}\s+password\s+)(?!\*\*\*)[^\s\"']+",  # ~/.netrc
    rf"(?P<head>{_START}-{{1,2}}{_WORD}-(?:command|cmd)[\s=][\"']?{_GIVES})(?!\*\*\*)[^\s\"']+",  # that prints it
    r"(?P<head>\bmc\s(?:alias\sset|config\shost\sadd)\s\S{1,80}\s\S{1,200}\s\S{1,80}\s)(?!\*\*\*)[^\s\"']+",
)
_HEADS = (
    # login('me', '…'), HTTPBasicAuth('me', '…'): before `auth=` takes such a call for the value
    rf"(?P<head>\b(?:login|http\w{{0,10}}auth)\([^()]{{1,120}},\s*(?:\w{{1,20}}\s*=\s*)?{_QUOTE}){_VALUE}",
    rf"(?P<head>{_START}{_WORD}{_SIGN}[\[({{])(?!\*\*\*)[^\])}}]+",  # name=('…', '…'), to the bracket's end
    rf"(?P<head>{_START}{_WORD}\\?[\"']?\]?{_SIGN}{_QUOTE}){_VALUE}",  # name='…', environ["NAME"] = "…", {"name": "…"}
    rf"(?P<head>{_START}{_WORD}\\?[\"']?\]?{_SIGN}\\?[\"']?)(?!\*\*\*|[\[({{]|{_NOTHING})[^\s\"'&;]+",  # name=…
    rf"(?P<head>{_START}-{{1,2}}{_WORD}\s+{_QUOTE}){_VALUE}",  # --name '…'
    rf"(?P<head>{_START}-{{1,2}}{_WORD}\s+)(?!--|\*\*\*)[^\s\"']+",
    rf"(?P<head>\b(?:setdefault|putenv|setenv|setattr|__setitem__)\([^\"'()]{{0,80}}[\"']{_WORD}[\"']\s*,\s*{_QUOTE}){_VALUE}",
    rf"(?P<head>\blogin\(\s*(?:\w{{1,20}}\s*=\s*)?{_QUOTE}){_VALUE}",  # login('…'), login(key='…')
    rf"(?P<head>{_GIVES})(?!\*\*\*)[^|;&\n]{{1,400}}?(?P<tail>\s*\|[^;&\n]{{0,200}}?(?:{_ASKS}))",  # echo S | x login
    rf"(?P<head><<<\s*)(?!\*\*\*)[^\s|;&]+(?P<tail>\s*\|[^;&\n]{{0,200}}?(?:{_ASKS}))",
    rf"(?P<head>(?:{_ASKS})[^;&|\n]{{0,200}}?<<<\s*)(?!\*\*\*)[^\s;&|]+",
    r"(?P<head>\bwandb\s+login\s+(?:--?[\w\-]+(?:=[^\s]{1,200})?\s+){0,4})(?!-|\*\*\*)[^\s\"']+",
    rf"(?P<head>{_START}(?:{_SETS})\s(?:[^|;&\n]{{0,80}}?[\s/:])?{_WORD}\s+{_QUOTE}){_VALUE}",  # set NAME 'VALUE'
    rf"(?P<head>{_START}(?:{_SETS})\s(?:[^|;&\n]{{0,80}}?[\s/:])?{_WORD}\s+)(?!-|\*\*\*|[|;&])[^\s\"']+",
    rf"(?P<head>{_START}{_SHORTENED}[\s=]\s*{_QUOTE}){_VALUE}",
    rf"(?P<head>{_START}{_SHORTENED}[\s=]\s*)(?!-|\*\*\*)[^\s\"']+",
    *_LETTERS,
    *_BEHIND,
    r"(?P<head>\b(?:proxy-)?(?:authorization|(?:set-)?cookie)\s*:\s*)(?!\*\*\*)[^\"'\r\n]+",  # a header, to its end
    r"(?P<head>\b(?:bearer|basic|token)\s+)[\w.~+/=\-]{8,}",
    r"(?P<head>[a-z0-9+.\-]://[^\s/:@]*:)[^\s/]+(?=@)",  # a password may hold an @
    r"(?P<head>[a-z0-9+.\-]://)[^\s/:@]{16,}(?=@)",  # a token as user name
    r"(?P<head>\bhttps?://)(?!\*\*\*)[^\s/:@]+(?=@)",  # over HTTP nobody is named for another reason
    rf"(?P<head>[?&;](?:{_WORD}|sig|key)=)(?!\*\*\*)[^&\s#;\"']+",
    r"(?P<head>\bhooks\.slack\.com/services/|\bapi/webhooks/|\bwebhookb2/)(?!\*\*\*)[\w/\-]+",
    r"(?P<head>(?:^|\s)(?:-u|--(?:proxy-)?user)[ =]?[^\s:=\-][^\s:]{0,80}:)(?![0-9]+\b|\*\*\*)[^\s\"']+",
    r"(?P<head>-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----)(?!\*\*\*).+?(?P<tail>-----END [A-Z ]{0,20}PRIVATE KEY-----|\Z)",
)
_INSIDE = tuple(re.compile(pattern, re.IGNORECASE | re.DOTALL) for pattern in _HEADS)
_LINES = tuple(re.compile(pattern, re.IGNORECASE | re.DOTALL) for pattern in _BEHIND)
_USERS = frozenset({"-u", "--user", "--proxy-user"})  # `NAME:PASSWORD` follows
_NAMED = re.compile(rf"^(?:{_SHORTENED}|-{{0,2}}{_WORD})$", re.IGNORECASE)
_PASSWORD = re.compile(r"passw|passc|passp|pwd|^-[a-z]$", re.IGNORECASE)
_SETTING = frozenset(_SETS.split("|"))
_KEY = re.compile(r"^(?!-)[^\s.:/@]{6,}$")  # no host, no user
_SHELLS = frozenset({"ssh", "mosh", "rsh"})  # to a host that is called so
# Secrets that are known by their own look, wherever they stand.
_LOOKS = re.compile(
    r"\b(?:"
    r"sk-[\w\-]{16,}|hf_\w{16,}|gh[pousr]_\w{16,}|github_pat_\w{20,}|glpat-[\w\-]{16,}|xox[abeprs]-[\w\-]{10,}|"
    r"(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w\-]{30,}|npm_\w{20,}|pypi-[\w\-]{20,}|dop_v1_\w{20,}|"
    r"eyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]*|"
    r"local-[0-9a-f]{40}|wandb_v1_\w{20,}|"
    r"[sr]k_(?:live|test)_\w{16,}|gsk_\w{20,}|nvapi-[\w\-]{20,}|dapi[0-9a-f]{32}|ya29\.[\w\-]{16,}|dckr_pat_[\w\-]{20,}|"
    r"hvs\.[\w\-]{20,}|SG\.[\w\-]{16,}\.[\w\-]{16,}|r8_\w{20,}|glsa_\w{20,}|tskey-[\w\-]{20,}|[0-9]{8,10}:AA[\w\-]{30,}"
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


def escaped(document: bytes) -> bytes:
    r"""Return a JSON document with what a terminal would obey written as JSON does (`\u009b`): it says the same.

    JSON itself escapes C0 only; C1, DEL, bidi and invisible characters stand in its texts as they are.
    """
    text = document.decode("utf-8", "replace")
    return _CONTROLS.sub(lambda found: found[0] if found[0] in "\n\r\t" else json.dumps(found[0])[1:-1], text).encode()


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
    words: list[str] = []  # those before it
    hide = False
    for argument in arguments:
        if hide and not (argument.startswith("--") and len(argument) > len("--")) and not _counts(words[-1], argument):
            masked.append(MASK)
            words.append("")
            hide = False
            continue
        flag = next(
            (flag for flag, programs in _PLAIN.items() if argument.startswith(flag) and _any(programs, words)), ""
        )
        attached = flag not in {"", argument}  # -pPASSWORD, whatever that looks like
        hide = not attached and (argument == flag or _announces(argument, words))
        if attached:
            masked.append(flag + MASK)
        elif _KEY.match(argument) and _logs_in(words):
            masked.append(MASK)
        else:
            told = _behind(words, argument)
            masked.append(_user(told) if words and words[-1] in _USERS else _masked(told))
        word = masked[-1]  # what is hidden stays so where the next ones are read
        words.append(word if word.startswith("-") else word.rstrip("/").rpartition("/")[2])
    return tuple(masked)


def _behind(words: list[str], argument: str) -> str:
    """Return an argument as the words before it have it: a secret behind a program's own option."""
    before = " ".join(words[-8:])[-SENTENCE:] + " "  # 8: further away no program tells what an argument is
    for pattern in _LINES:
        told = pattern.sub(_hidden, before + argument)
        argument = told[len(before) :] if told.startswith(before) else argument
    return argument


def _counts(name: str, value: str) -> bool:
    """Return whether a value is the number of something: `--pad_token_id 0`, `--pass 3`. A password may be one."""
    # A number of up to 6 digits is no secret: vocabularies have some 100,000 tokens
    return value.replace(".", "", 1).isdigit() and len(value) <= 6 and not _PASSWORD.search(name)


def _any(programs: Iterable[str], words: list[str]) -> bool:
    return any(program in words for program in programs)


def _announces(argument: str, words: list[str]) -> bool:
    """Return whether a secret follows as the next argument: `--token`, `token:`, `set aws_secret_access_key`."""
    if argument.startswith("-") or argument.endswith((":", "=")):
        return _NAMED.match(argument.rstrip(":=")) is not None
    name = argument.rpartition("/")[2].lstrip(":")
    return any(word in _SETTING for word in words) and _NAME.match(name) is not None


def _logs_in(words: list[str]) -> bool:
    """Return whether the words before it, options left out, are a program and `login`."""
    plain = [word for word in words if not word.startswith("-")]
    return len(plain) > 1 and plain[-1] == "login" and plain[-2] not in _SHELLS


def _user(argument: str) -> str:
    """Return `NAME:PASSWORD` without the password; numbers are a user and a group."""
    name, sign, password = argument.partition(":")
    return (
        _masked(argument) if not sign or password.isdigit() or password.startswith("//") else f"{_masked(name)}:{MASK}"
    )


def _masked(argument: str) -> str:
    pair = _PAIR.match(argument)
    if pair and "://" not in argument[: pair.end("sign") + 2] and _NAMED.match(pair["name"]):
        return f"{pair['name']}{pair['sign']}{MASK}"
    if _WANDB.match(argument):
        return MASK
    for pattern in _INSIDE:
        argument = pattern.sub(_hidden, argument)
    return _LOOKS.sub(MASK, argument)


def _hidden(match: "re.Match[str]") -> str:
    return f"{match['head']}{MASK}{match.groupdict().get('tail') or ''}"
