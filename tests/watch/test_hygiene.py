"""What came from elsewhere cannot write to a terminal, and what is secret is not kept."""

import json
import shlex
import time
from pathlib import Path

import msgspec
import pytest

from gputune.core.hygiene import clean, escaped, is_clean, mask


def test_plain_text_of_any_language_stays_as_it_is() -> None:
    for text in ("train.py --lr 1e-3", "größe 訓練 épochs", "🙂", "", "a" * 200):
        assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]52;c;ZXZpbA==\x07", "\\x1b]52;c;ZXZpbA==\\x07"),
        ("two\nlines\r\ttab", "two\\nlines\\r\\ttab"),
        ("\x7f \x9b31m", "\\x7f \\x9b31m"),
        ("a\u202eb\u2066c\u200bd\ufeff", "a\\u202eb\\u2066c\\u200bd\\ufeff"),
        ("\U000e0041", "\\U000e0041"),
        (b"\xff.py".decode("utf-8", "surrogateescape"), "\\xff.py"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_a_terminal_would_obey_becomes_visible(text, shown) -> None:
    assert clean(text) == shown
    shown.encode()


def test_a_document_says_the_same_without_what_a_terminal_would_obey() -> None:
    said = {"a": "\x9b31m \u202e \x7f \u200b \U000e0041 größe 訓練", "b": ["\x1b[2J", "two\nlines"]}
    document = msgspec.json.format(msgspec.json.encode(said), indent=2)
    shown = escaped(document)
    assert json.loads(shown) == said
    assert "größe 訓練" in shown.decode()
    assert all(is_clean(line) for line in shown.decode().splitlines())


@pytest.mark.parametrize("limit", [1, 5, 80])
def test_long_text_is_clipped_after_it_was_made_visible(limit) -> None:
    for text in ("a" * 1000, "\x1b" * 1000):
        assert len(clean(text, limit)) == limit
        assert clean(text, limit).endswith("…")


def test_every_character_comes_out_printable() -> None:
    for code in range(0x110000):
        if code < 0x3000 or 0xD7F0 < code < 0xE010 or 0xFE00 < code < 0x10000 or 0xDFFF0 < code < 0xE0100:
            shown = clean(chr(code))
            assert "\x1b" not in shown
            assert not any(0xD800 <= ord(c) <= 0xDFFF or ord(c) < 32 or 127 <= ord(c) < 160 for c in shown)


SECRET = "s3cr3t-value-0123456789"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--api-key", SECRET],
        [f"--api-key={SECRET}"],
        ["--wandb_api_key", SECRET],
        ["--hf-token", SECRET],
        [f"--token={SECRET}"],
        ["-password", SECRET],
        ["--password", "-starts-with-a-dash" + SECRET],
        ["env", f"WANDB_API_KEY={SECRET}", "python"],
        [f"AWS_SECRET_ACCESS_KEY={SECRET}"],
        [f"trainer.logger.api_key={SECRET}"],
        [f"+logger.token={SECRET}"],
        [f"s3://user:{SECRET}@host/bucket"],
        [f"--data=postgres://me:{SECRET}@db/x"],
        [f"https://host/path?epoch=3&access_token={SECRET}&x=1"],
        [f"https://{SECRET}@github.com/a/b"],
        ["bash", "-c", f"export HF_TOKEN={SECRET}; python train.py"],
        ["bash", "-c", f"python train.py --api-key {SECRET} --epochs 3"],
        ["bash", "-c", f"WANDB_API_KEY='{SECRET}' python train.py"],
        ["curl", "-H", f"Authorization: Bearer {SECRET}"],
        ["--config", '{"password": "' + SECRET + '"}'],
        ["--header", f"X-Auth-Token: {SECRET}"],
    ],
)
def test_a_secret_is_masked_wherever_it_stands(arguments) -> None:
    masked = mask(arguments)
    assert SECRET not in " ".join(masked)
    assert "***" in " ".join(masked)
    assert len(masked) == len(arguments)


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.environ['HF_TOKEN']='{}'",
        'os.environ["WANDB_API_KEY"] = "{}"; main()',
        "os.environ.setdefault('HF_TOKEN', '{}')",
        "os.putenv('DB_PASSWORD', b'{}')",
        "os.environ.update(HF_TOKEN='{}')",
        "import wandb; wandb.login(key='{}')",
        "wandb.login(relogin=True, key='{}')",
        "huggingface_hub.login('me@x.org', '{}')",
        "requests.get(u, auth=('{}', '{}'))",
        "api_keys = ['{}', '{}']",
        "wandb.login(key = r'{}')",
        "huggingface_hub.login('{}')",
        'login("{}")',
        "openai.api_key='{}'",
        "Client(apiKey='{}', retries=3)",
        "connect(user='me', passwd=f'{}')",
        "setattr(settings, 'secret', '{}')",
        "os.environ.__setitem__('HF_TOKEN', '{}')",
        "requests.get(u, auth=HTTPBasicAuth('me', '{}'))",
        "python train.py ++secrets.hub={}",
        "python train.py --credentials.s3.id {}",
        "dvc remote modify --local store secret_access_key {}",
        "x = dict(clientSecret='{}')",
        "token: str = '{}'",
        "curl -u me:{} https://host",
        "curl -ume:{} https://host",
        "curl --user me:{} https://host",
        "curl --proxy-user=me:{} https://host",
        "curl -H 'Cookie: session={}; other={}' https://host",
        "curl -H 'Authorization: Digest username=me, response={}' https://host",
        "curl -H 'Authorization: ApiKey {}' https://host",
        "curl -H 'X-Goog-Api-Key: {}' https://host",
        "curl -H 'Ocp-Apim-Subscription-Key: {}' https://host",
        "curl https://bucket.s3.amazonaws.com/x?X-Amz-Credential={}&X-Amz-Signature={}",
        "curl https://bucket.s3.amazonaws.com/x?X-Amz-Security-Token={}&X-Amz-Expires=60",
        "curl https://me.blob.core.windows.net/x?sv=2022&sig={}",
        "curl https://storage.googleapis.com/x?X-Goog-Signature={}",
        "curl https://cdn/x?Policy=p&Signature={}&Key-Pair-Id=k",
        "curl https://maps/api?key={}",
        "curl https://host/?redirect=a%26token%3D{}",
        "git clone https://me:p@{}@host/x",
        "sshpass -p {} ssh host",
        "sshpass -p{} ssh host",
        "mysql -u me -p{} db",
        "redis-cli -h host -a {} ping",
        "docker login -u me -p {} registry",
        "docker run -eTOKEN={} image",
        "docker run -e HF_TOKEN={} image",
        "docker run --env=TOKEN={} image",
        "docker build --build-arg=githubPat={} .",
        "PGPASSWORD={} psql",
        "export MYSQL_PWD={}; mysqldump",
        "DB_PASSWORD_PROD={} python train.py",
        "API_KEY_2={} python train.py",
        "AZURE='AccountName=me;AccountKey={};EndpointSuffix=core' python train.py",
        "Endpoint=sb://x/;SharedAccessKeyName=k;SharedAccessKey={}",
        "SharedAccessSignature={}",
        "PASSWORD='two words {}' python train.py",
        'PASSWORD="it, is; {}" python train.py',
        "PASSWORD=a,{} python train.py",
        "python train.py --dbPassword {}",
        "python train.py -password {}",
        "python train.py --password 'two words {}'",
        "python train.py --accessToken={}",
        "python train.py --secretAccessKey {}",
        "python train.py --jwt {}",
        "python train.py --openai-key {}",
        "python train.py --secrets {}",
        "python train.py logger.authToken={}",
        'python train.py \'{{"apiKey": "{}"}}\'',
        'python train.py "{{\\"token\\": \\"{}\\"}}"',
        "python train.py config.yaml token: {}",
        "openssl rsa -passin pass:{}",
        "curl -b 'session={}' https://host",
        "curl -sS -b session={} https://host",
        "mysql -uroot -p{}",
        "7z x -p{} a.7z",
        "unzip -P {} a.zip",
        "openssl enc -k {} -aes256",
        "git clone https://{}@host/a/b",
        "pip install 'git+https://{}@host/a/b@main#egg=b'",
        "python train.py --index-url=https://{}@host/simple",
        "python train.py --tok {}",
        "python train.py --hub_tok={}",
        "python train.py --passw {}",
        "python train.py --cred '{}'",
        "python train.py --api_k {}",
        "aws configure set aws_secret_access_key {}",
        "aws configure set profile.x.aws_session_token '{}'",
        "git config --global github.token {}",
        "npm config set //host/:_authToken {}",
        "rclone config create s3 s3 secret_access_key {}",
        "heroku config:set API_KEY={}",
        "wandb login {}",
        "wandb login --relogin --host=https://me.wandb.ai {}",
        "kaggle datasets download -k {}",
        "aws s3 cp --sse-c AES256 --sse-c-key {} a b",
        "http -a me:{} host",
        "http --auth=me:{} host",
        "smbclient -U me%{} //host/x",
        "lftp -u me,{} host",
        "curl -E cert.pem:{} https://host",
        "curl --proxy-cert cert.pem:{} https://host",
        "kubectl create secret generic x --from-literal=k={}",
        "kubectl create secret generic x --from-literal k={}",
        "spark-submit --conf fs.azure.account.key.me.blob.core.windows.net={} x",
        "spark-submit --conf fs.azure.sas.box.me.blob.core.windows.net={} x",
        "python train.py --db.pw {}",
        "python train.py --seed_phrase {}",
        "mc alias set me http://host access {}",
        "mc alias set me https://host:9000/ access {}",
        "kubectl create secret generic x --from-literal a={} --from-literal b={}",
        "curl -E cert.pem:{} --proxy-cert other.pem:{} https://host",
        "mc config host add me http://host access {}",
        "restic -r x --password-command 'echo {}'",
        "mongosh -u me -p {}",
        "sqlcmd -U sa -P {}",
        "twine upload -u me -p {} x",
        "cqlsh -u me -p {}",
        "rar a -hp{} x y",
        "ssh-keygen -N {} -f key",
        "ngrok authtoken {}",
        "flyctl -t {}",
        "CREDENTIALS_JSON={} python train.py",
        "python train.py --webhook https://me.webhook.office.com/webhookb2/{}",
        "machine host login me password {}",
        "sh -c 'HF_TOKEN='\"'\"'{}'\"'\"' python train.py'",
        "python train.py --password -{}",
        "https://hooks.slack.com/services/T00000000/B00000000/{}",
        "https://discord.com/api/webhooks/123456789/{}",
        "-----BEGIN PRIVATE KEY-----\nMIIE{}\n-----END PRIVATE KEY----- --epochs 3",
        "-----BEGIN OPENSSH PRIVATE KEY-----\\n{}",
        "-----BEGIN RSA PRIVATE KEY-----\n{}",
    ],
)
def test_a_secret_in_code_or_in_a_shells_line_is_masked(code: str) -> None:
    text = code.format(*[SECRET] * code.count("{}"))
    words = [] if any(mark in text for mark in ("-----", "(", " = ")) else shlex.split(text)  # Python is one word
    for arguments in (["bash", "-c", text], ["python", "-c", text], [text], words):
        masked = " ".join(mask(arguments))
        assert SECRET not in masked
        assert "***" in masked or not words


@pytest.mark.parametrize(
    "line",
    [
        "echo {} | docker login -u me --password-stdin",
        "printf '%s' {} | docker login -u me --password-stdin registry",
        "echo -n '{}' | gh auth login --with-token",
        "echo {} | sudo -S true",
        "echo {} | gpg --passphrase-fd 0 -d x",
        "docker login -u me --password-stdin <<< {}",
        "cat <<< {} | docker login -u me --password-stdin",
        "read -s X <<< {}",
    ],
)
def test_a_secret_that_a_shell_hands_to_a_program_is_masked(line: str) -> None:
    _, _, masked = mask(["sh", "-c", line.format(SECRET)])
    assert SECRET not in masked
    assert all(word in masked for word in ("-u me", "login", "sudo", "gpg") if word in line)


def test_a_key_that_a_shell_line_logs_in_with_is_masked() -> None:
    assert mask(["bash", "-c", "true; wandb login --relogin 0123abcd"]) == (
        "bash",
        "-c",
        "true; wandb login --relogin ***",
    )


@pytest.mark.parametrize(
    "secret",
    [
        "sk_live_abcdefghijklmnop1234",
        "gsk_abcdefghijklmnopqrstuvwx",
        "nvapi-abcdefghijklmnopqrstuvwx",
        "dapi0123456789abcdef0123456789abcdef",
        "ya29.a0AfH6SMBabcdefghijklmnop",
        "dckr_pat_abcdefghijklmnopqrstuv",
        "hvs.abcdefghijklmnopqrstuvwx",
        "SG.abcdefghijklmnop1234.abcdefghijklmnop1234",
        "123456789:AAabcdefghijklmnopqrstuvwxyz0123456",
        "sk-proj-abcdefghijklmnop1234",
        "hf_abcdefghijklmnopqrst",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmN",
        "0123456789abcdef0123456789abcdef01234567",
    ],
)
def test_a_key_is_known_by_its_look(secret) -> None:
    assert secret not in " ".join(mask(["--resume", secret]))
    assert secret not in " ".join(mask(["bash", "-c", f"login {secret}"])) or len(secret) == 40


@pytest.mark.parametrize(
    "arguments",
    [
        ["python", "train.py", "--epochs", "3", "--lr=1e-3"],
        ["--tokenizer", "bert-base", "--max-tokens", "512", "--num_tokens=4"],
        ["--author", "ada", "--keyframe=3", "--path", "/data/key"],
        ["torchrun", "--nproc-per-node", "2", "-m", "pkg.train", "data.root=/mnt/x"],
        ["https://host:8080/path", "tcp://127.0.0.1:29500"],
        ["python", "-c", "import torch; print(torch.__version__)"],
        ["--rdzv-id=abc", "--monkey", "yes", "--compass=north"],
        ["python", "-u", "train.py", "--user", "1000:1000", "-p", "8080:80"],
        ["python", "-c", "sorted(xs, key=len); d['key'] = 3; if x == 'token': pass"],
        ["python", "-c", "pd.read_csv(f, usecols=['token', 'label'])"],
        ["--signature-columns", "text", "--bypass", "cache", "--num-tokens=3", "--mode:fast"],
        ["docker", "run", "-p", "8080:80", "-u", "1000:1000", "-e", "EPOCHS=3", "image"],
        ["python", "train.py", "-a", "resnet:18", "-t", "3", "-N", "4", "--cert", "x:y", "--cls_pw", "1.0"],
        ["docker", "run", "-e", "HF_TOKEN", "image", "python", "net.py", "-U", "a%b", "--from", "x=y"],
        ["mysql_dataset.py", "-p", "4", "--keys", "a,b"],
        ["python", "-c", "import secrets; x = secrets.token_hex(8)", "--pwd_head=3", "--modify", "all"],
    ],
)
def test_ordinary_arguments_are_kept_as_they_are(arguments) -> None:
    assert mask(arguments) == tuple(arguments)


@pytest.mark.parametrize("short", ["S3cret", "tok3n-", "hunter2", "pa55word"])
@pytest.mark.parametrize(
    "line",
    [
        "git clone https://{}@github.com/a/b",
        "mysql -p{} db",
        "curl -b sid={} https://host",
        "python train.py --tok {}",
        "python train.py --password 1234{}",
        "aws configure set aws_secret_access_key {}",
        "wandb login {}",
        "python -m wandb login --relogin {}",
        "sh -c 'echo {} | docker login -u x --password-stdin'",
        "kaggle competitions download -c x -k {}",
    ],
)
def test_a_secret_may_be_short(line: str, short: str) -> None:
    assert short not in " ".join(mask(shlex.split(line.format(short))))


@pytest.mark.parametrize("line", [["--password", "1234"], ["mysql", "-p", "1234"], ["sshpass", "-p1234"]])
def test_a_password_may_be_a_number(line: list[str]) -> None:
    assert "1234" not in " ".join(mask(line))


def test_ordinary_commands_of_trainings_stay_readable() -> None:
    lines = Path(__file__).with_name("ordinary_commands.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) >= 200
    changed = [line for line in lines if mask(shlex.split(line)) != tuple(shlex.split(line))]
    assert changed == ['python train.py --prompt "Token: what is the password policy?"']


@pytest.mark.parametrize(
    "part",
    [
        *(
            "x",
            "a-",
            "--a",
            "a.",
            "key",
            "a=",
            "http://a",
            "x ",
            "token ",
            "token='",
            "mysql ",
            "echo a ",
            "<<< a",
            "set a ",
            "config set tok",
            "--tok",
            "-u a:",
            "Cookie: ",
            "login('",
        ),
        *("-----BEGIN PRIVATE KEY-----", "https://a:b@", "?sig=", "setattr(a,'token',", "--token '", "[[['"),
    ],
)
def test_a_long_argument_takes_no_time_to_mask(part) -> None:
    """A configuration as one argument: a pattern that looks again from each letter would take minutes."""
    before = time.process_time()
    mask([part * (100_000 // len(part))])
    assert time.process_time() - before < 5.0


@pytest.mark.parametrize("password", ["-pmy-secret-1", "-ptoken", "-pkey=x"])
def test_a_password_that_looks_like_a_name_hides_itself_and_not_what_follows(password: str) -> None:
    assert mask(["sshpass", password, "ssh", "host"]) == ("sshpass", "-p***", "ssh", "host")
