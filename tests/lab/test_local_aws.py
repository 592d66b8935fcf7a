import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from textwrap import dedent
from zipfile import ZipFile

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from burstlab.deployed.local_aws import LocalAws, LocalAwsError
from support.paths import ROOT
from support.waiting import wait_until

PROCESS_GUARD = ROOT / "lab" / "burstlab" / "deployed" / "process_guard.py"
FUNCTION_START = PROCESS_GUARD.with_name("function_start")


def test_it_is_an_aws_on_loopback_with_the_account_of_the_lab(aws):
    assert aws.url.startswith("http://127.0.0.1:")
    assert aws.client("sts").get_caller_identity()["Account"] == "123456789012"


def test_its_environment_is_all_a_client_needs(aws, monkeypatch):
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)
    assert boto3.session.Session().client("sqs").list_queues().get("QueueUrls", []) == []


@pytest.mark.parametrize(
    ("service", "operation", "arguments"),
    [
        ("pricing", "get_products", {"ServiceCode": "AmazonEC2"}),
        ("service-quotas", "list_service_quotas", {"ServiceCode": "ebs"}),
    ],
)
def test_a_service_that_it_does_not_have_is_refused(aws, service, operation, arguments):
    client = aws.client(service)
    with pytest.raises(ClientError, match="400"):
        getattr(client, operation)(**arguments)


def test_two_local_aws_do_not_interfere(aws):
    with LocalAws() as other:
        other.client("sqs").create_queue(QueueName="only-there")
        assert aws.client("sqs").list_queues(QueueNamePrefix="only").get("QueueUrls", []) == []


def test_its_files_are_removed_with_it():
    with LocalAws() as running:
        folder = running.directory
        assert "Ready" in running.server_log()
    assert not folder.exists()
    with pytest.raises(LocalAwsError, match="not running"):
        running.url  # noqa: B018 - it raises


def test_when_it_is_not_installed_it_names_what_would_work(tmp_path):
    with pytest.raises(LocalAwsError, match="run `make setup`"):
        LocalAws(environment=tmp_path / "nothing").start()


def test_a_server_that_does_not_start_is_reported_with_its_last_words(tmp_path):
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho no such luck\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(LocalAwsError, match=r"did not start within .*\n.*no such luck"):
        LocalAws(environment=tmp_path).start()


def test_the_real_cdk_deploys_onto_it_and_its_functions_run(aws, app):
    aws.run_cdk("bootstrap", f"aws://{aws.account}/{aws.region}", cwd=aws.directory)
    command = f"{sys.executable} app.py"
    aws.run_cdk("deploy", "--require-approval", "never", app=command, cwd=app)
    answer = aws.client("lambda").invoke(FunctionName="greet", Payload=b'{"name": "anna"}')
    text = answer["Payload"].read().decode()
    assert '"greeted": "anna"' in text
    assert f'"endpoint": "{aws.url}"' in text
    assert "PYTEST_CURRENT_TEST" not in text
    synthesized = aws.directory / "cdk.out"
    assert "no changes" in aws.run_cdk("deploy", app=synthesized, cwd=app)
    aws.run_cdk("destroy", "--force", app=synthesized, cwd=app)


def test_only_ten_functions_run_at_once_and_one_more_is_throttled(aws):
    name = a_function(aws, "import time\n\ndef handler(event, context):\n    time.sleep(event)\n")
    limit = aws.client("lambda").get_account_settings()["AccountLimit"]["ConcurrentExecutions"]
    assert limit == 10

    def invoke(seconds):
        client = aws.client("lambda", config=Config(retries={"total_max_attempts": 1}))
        try:
            client.invoke(FunctionName=name, Payload=json.dumps(seconds).encode())
        except client.exceptions.TooManyRequestsException as error:
            return error.response["Error"]["Code"]
        return "ran"

    with ThreadPoolExecutor(12) as pool:
        assert Counter(pool.map(invoke, [4] * 12)) == {"ran": 10, "TooManyRequestsException": 2}
    assert invoke(0) == "ran"


def test_a_function_runs_the_code_that_it_was_given_last(aws):
    """An archive is unpacked once; so is one with the same names of files and other content."""
    first, second = (f"def handler(event, context):\n    return {answer}\n" for answer in (41, 42))
    name = a_function(aws, first, name="answers")
    client, answers = aws.client("lambda"), []
    for code in (first, second, first):
        client.update_function_code(FunctionName=name, ZipFile=archive_of(code))
        answers.append(json.loads(client.invoke(FunctionName=name)["Payload"].read()))
    assert answers == [41, 42, 41]


def archive_of(code):
    archive = BytesIO()
    with ZipFile(archive, "w") as file:
        file.writestr("code.py", code)
    return archive.getvalue()


def a_function(aws, code, *, name="sleeps"):
    role = f"arn:aws:iam::{aws.account}:role/lab"
    aws.client("lambda").create_function(
        FunctionName=name,
        Runtime="python3.14",
        Role=role,
        Handler="code.handler",
        Code={"ZipFile": archive_of(code)},
        Timeout=20,
    )
    return name


def test_a_function_starts_with_the_bytecode_of_its_source_wherever_it_is_unpacked(tmp_path):
    """Each cold start unpacks it again; a second one must not compile it, nor take old code for new."""
    sources = ["answer = 41", "answer = 41", "answer = 42"]
    environment = {"PYTHONPATH": str(FUNCTION_START), "PYTHONPYCACHEPREFIX": str(tmp_path / "bytecode")}
    answers, written = [], []
    for number, source in enumerate(sources):
        unpacked = tmp_path / f"ministack-lambda-watch-{number}" / "code"
        unpacked.mkdir(parents=True)
        (unpacked / "module.py").write_text(source)
        program = f"import sys; sys.path.insert(0, {str(unpacked)!r}); import module; print(module.answer)"
        started = [sys.executable, "-c", program]
        answers.append(
            subprocess.run(started, env=environment, capture_output=True, text=True, check=True).stdout
        )
        [bytecode] = (tmp_path / "bytecode").rglob("code/module.*.pyc")
        written.append(bytecode.stat().st_mtime_ns)
    assert answers == ["41\n", "41\n", "42\n"]
    assert written[0] == written[1] < written[2]


def test_a_cdk_that_fails_is_reported_with_its_last_words(aws, app):
    (app / "app.py").write_text("raise SystemExit('stage.yaml: no such stage')\n")
    with pytest.raises(LocalAwsError, match=r"`cdk synth` failed .*\n(.*\n)*.*no such stage"):
        aws.run_cdk("synth", app=f"{sys.executable} app.py", cwd=app)


def test_it_does_not_outlive_a_process_that_is_killed():
    program = dedent("""\
        import time
        from burstlab.deployed.local_aws import LocalAws

        aws = LocalAws()
        aws.start()
        print(aws.directory, flush=True)
        time.sleep(600)
    """)
    started = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        folder = Path(started.stdout.readline().strip())
        assert members_of(folder)
        started.kill()
    finally:
        started.kill()
        started.communicate()
    wait_until(lambda: not members_of(folder) and not folder.exists())


@pytest.mark.parametrize("how", ["let go", "terminated"])
def test_a_guarded_process_ends_with_all_its_children(tmp_path, how):
    with run_guarded(tmp_path, "sleep 601 & sleep 602") as started:
        if how == "let go":
            started.stdin.close()
        else:
            started.terminate()
        started.wait(30)
        wait_until(lambda: not members_of(tmp_path))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_command_ends_even_if_its_process_guard_is_killed(tmp_path):
    with run_guarded(tmp_path, "exec sleep 603") as started:
        started.kill()
        wait_until(lambda: not members_of(tmp_path))


@contextmanager
def run_guarded(folder: Path, script: str):
    """A shell's script, running in this folder."""
    with subprocess.Popen(
        [sys.executable, str(PROCESS_GUARD), "-", "sh", "-c", f"echo begun; {script}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=folder,
    ) as started:
        try:
            started.stdout.readline()
            wait_until(lambda: any("sleep 60" in line for line in members_of(folder)))
            yield started
        finally:
            started.terminate()


def test_a_process_guard_passes_on_the_exit_status(tmp_path):
    command = [sys.executable, str(PROCESS_GUARD), str(tmp_path), "sh", "-c", "exit 7"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as started:
        assert started.wait(30) == 7
    assert tmp_path.exists()


def members_of(folder: Path) -> list[str]:
    """The command lines of living processes that work in this folder or name it."""
    results = []
    for process in Path("/proc").iterdir():
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            place = str((process / "cwd").readlink())
        except OSError:
            continue
        if process.name.isdigit() and int(process.name) != os.getpid() and str(folder) in (line + place):
            results.append(line)
    return results
