"""Command lines as somebody would type them."""

import unicodedata

import pytest

from gputune.feeds.typed import COMMAND_CHARS, typed


def line(*words: str) -> bytes:
    """Return a /proc/PID/cmdline."""
    return b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("python", "train.py", "--epochs", "3"), "train.py --epochs 3"),
        (("/opt/venv/bin/python3.11", "-u", "-X", "dev", "src/train.py"), "src/train.py"),
        (("/usr/bin/python3", "/home/me/a/very/long/way/train.py", "x"), "train.py x"),
        (("python", "-m", "torch.distributed.run", "train.py"), "torch.distributed.run train.py"),
        (("python", "-c", "print(1)"), "-c 'print(1)'"),
        (("bash", "run.sh"), "run.sh"),
        (("python",), "python"),
        (("python", "-i"), "python -i"),
        (("/usr/lib/jvm/java", "-jar", "x.jar"), "java -jar x.jar"),
        (("sshd: me@pts/0",), "sshd: me@pts/0"),
        (("python", "a b.py", "it's"), "'a b.py' 'it'\"'\"'s'"),
    ],
)
def test_the_script_stands_first(words: tuple[str, ...], shown: str) -> None:
    assert typed(line(*words)) == shown


def test_a_thread_of_the_kernels_has_none() -> None:
    assert typed(b"") == ""


def test_secrets_are_masked_also_where_the_interpreter_is_dropped() -> None:
    assert typed(line("python", "train.py", "--api-key", "abc123", "HF_TOKEN=hf_x")) == (
        "train.py --api-key *** HF_TOKEN=***"
    )


def test_whatever_it_is_called_it_is_one_harmless_line() -> None:
    evil = "\x1b]52;c;eA==\x07\u202egnp\r\n\u200b" + "x" * 5000
    for words in ((evil,), ("python", evil), (evil, evil, evil), ("", "", ""), ("python", "\udcff")):
        shown = typed(line(*words))
        assert len(shown) <= COMMAND_CHARS
        assert not [c for c in shown if unicodedata.category(c) in {"Cc", "Cf", "Cs"}]
