"""Secrets stay out of what is kept: of arguments, of the environment, of addresses, in every file of a run, decoded.

The forms in which commands carry secrets (tests/watch/test_hygiene.py), with other secrets, between other words and one
in another. Each tenth case is a whole run with them in its command and its environment, each twentieth one of `share`
whose task says them in its log. Every file is read then, Parquet as values, JSON as texts, but for that log.
"""

import contextlib
import json
import random
import shlex
import shutil
import string
import subprocess
from collections.abc import Iterator
from pathlib import Path

from gputune.core.hygiene import mask
from gputune.recording import frames, parquet
from tests.faults import runs
from tests.faults.row import Case, chance, must
from tests.watch import test_hygiene

TESTS = "watch/test_hygiene.py"
QUICK, FULL, SHARE = 500, 20_000, 20
SECONDS = 120.0
WHOLE = 10  # cases to one that is a whole run
HOW = {
    False: ("watch", "--html", "--", "sh", "-c", "sleep 0.3; exit 3"),
    True: ("share", "--procs", "1", "--no-index-args", "--trial", "0", "--", "sh", "-c", 'echo "$0" "$@" >&2; exit 3'),
}
ALPHABET = string.ascii_letters + string.digits
ORDINARY = ("--epochs", "3", "--lr=1e-3", "-v", "data.root=/mnt/x", "--name", "run7", "train.py", "a=b", "--", "x y")
VARIABLES = ("WANDB_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "MY_OWN_THING", "OPENAI_API_KEY")


def forms() -> list[str]:
    """Return the forms that the tests of masking know, with `{}` where the secret stands."""
    lines = [mark.args[1] for mark in test_hygiene.test_a_secret_in_code_or_in_a_shells_line_is_masked.pytestmark]
    found = [text.replace("{{", "\0").replace("}}", "\1") for text in lines[0]]
    kept = [text for text in found if "-----" not in text]
    words = next(mark.args[1] for mark in test_hygiene.test_a_secret_is_masked_wherever_it_stands.pytestmark)
    return kept + [shlex.join(each).replace(test_hygiene.SECRET, "{}") for each in words]


LOOKS = ("sk-", "hf_", "ghp_", "github_pat_", "glpat-", "xoxb-", "AIza", "npm_", "pypi-", "gsk_", "nvapi-", "sk_live_")
FORMS = forms() + [f"{look}{{}}{{}}" for look in LOOKS]  # what is a key by its own look


def planted(dice: random.Random) -> tuple[list[str], str]:
    """Return a command with a secret in it, and the secret."""
    secret = "".join(dice.choices(ALPHABET, k=dice.randrange(16, 40))) + "Zq7"
    form = dice.choice(FORMS)
    line = form.replace("{}", secret).replace("\0", "{").replace("\1", "}")
    if dice.random() < 0.5 or any(mark in line for mark in ("(", " = ")):
        argv = [dice.choice(("bash", "sh")), "-c", line] if "(" not in line else ["python", "-c", line]
    else:
        argv = shlex.split(line)
    argv += dice.sample(ORDINARY, dice.randrange(3))
    if dice.random() < 0.3 and argv[0] in {"bash", "sh"}:
        argv = ["env", "A=b", *argv]
    return argv, secret


def texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what every file of a run says, decoded."""
    for file in folder.rglob("*"):
        if not file.is_file():
            continue
        yield str(file), file.name
        data = file.read_bytes()
        yield data.decode("latin-1"), file.name
        if file.suffix == ".parquet":
            yield json.dumps(parquet.decode(data).to_pylist(), default=str), file.name
        if file.name.startswith("frames-"):
            yield "".join(repr(each.payload) for each in frames.whole(data)), file.name


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Case]:
    def case(number: int) -> None:
        dice = chance("secrets", number)
        argv, secret = planted(dice)
        masked = mask(argv)
        must(secret not in " ".join(masked), f"{argv} is kept as {masked}")
        if number % WHOLE == 0:
            whole(folder / "home", argv, secret, dice, packed=number % (2 * WHOLE) == 0)

    yield case


def whole(home: Path, argv: list[str], secret: str, dice: random.Random, *, packed: bool) -> None:
    """Run a command that only holds it, and read all that is kept and said."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    plain = [part for part in argv if "\0" not in part]
    command = (*runs.GPUTUNE, *HOW[packed], *plain)
    env = runs.environment(**{dice.choice(VARIABLES): secret, "HTTPS_PROXY": f"http://me:{secret}@127.0.0.1:1"})
    done = subprocess.run(
        command, cwd=home, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=False
    )
    must(done.returncode == 3, f"status {done.returncode}: {done.stderr}")
    logs = [file.read_text() for file in home.rglob("*.log")]
    must(not packed or any(secret in text for text in logs), f"its task has said nothing: {logs}")
    must(secret not in done.stdout + done.stderr, "it is said")
    for text, name in texts(home):
        if packed and name.endswith(".log"):  # the task's own words, as it says them
            continue
        must(secret not in text, f"{name} holds it, of {argv}")
