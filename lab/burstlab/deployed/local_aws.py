"""A local AWS that the real ``cdk deploy`` deploys to: ministack on loopback, and the CDK's own command."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Final

from burstlab.fake_aws.background_server import Startable
from burstwatch.core.errors import BurstwatchError

ACCESS_KEY: Final = "burstlab"
ROOT: Final = Path(__file__).resolve().parents[3]
_PROCESS_GUARD: Final = Path(__file__).with_name("process_guard.py")
_FUNCTION_START: Final = Path(__file__).with_name("function_start")
_BYTECODE: Final = ROOT / "build" / "functions-bytecode"
_SERVER_START: Final = Path(__file__).with_name("server_start.py")
_READY_TIMEOUT_S: Final = 30.0  # it is ready in about a second; the rest is for a busy machine
_STOP_TIMEOUT_S: Final = 15.0  # then it is killed
_CDK_TIMEOUT_S: Final = 300.0
"""Bootstrap and deploy take 8 s and 6 s, the first synth 12 s; the rest is for a busy machine."""

_POLL_INTERVAL_S: Final = 0.05  # a start takes a second, so this adds little to it
_MAX_START_ATTEMPTS: Final = 3  # another process may take the free port before the server does
_SHOWN_LOG_LINES: Final = 25  # the end of a log has the error


class LocalAwsError(BurstwatchError):
    """The local AWS or the CDK failed; the message has its output."""


class LocalAws(Startable):
    """ministack on 127.0.0.1 and a free port; start it with ``with``, or ``start`` and ``stop``.

    Their output is kept in ``directory``, by default a new one that is deleted when it stops, or when this
    process dies. The functions run on this machine's Python, in ministack's environment plus their layer.
    Their bytecode is kept for the next start.
    """

    def __init__(
        self,
        *,
        directory: Path | None = None,
        region: str = "us-east-1",
        account: str = "123456789012",
        environment: Path | None = None,
        concurrent_executions: int = 10,
    ) -> None:
        self.region = region
        self.account = account
        self._concurrent_executions = concurrent_executions
        self._keeps_directory = directory is not None
        self.directory = directory or Path(os.devnull)
        self._python = (environment or Path(sys.prefix) / "local-aws") / "bin" / "python"
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        if self._process is None:
            raise LocalAwsError("the local AWS is not running: use it in a with statement, or call start")
        return f"http://127.0.0.1:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment for AWS clients, without anything of this machine's user."""
        return _ISOLATED_AWS_ENVIRONMENT | {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
        }

    def client(self, service: str, **options: Any) -> Any:
        """A boto3 client of it."""
        import boto3  # noqa: PLC0415 - the server itself needs none

        return boto3.client(
            service,  # type: ignore[call-overload]
            endpoint_url=self.url,
            region_name=self.region,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=ACCESS_KEY,
            **options,
        )

    def start(self) -> str:
        """Start it, wait until it is ready and answer its URL.

        Raises:
            LocalAwsError: it is not installed, or does not start.
        """
        if not self._python.exists():
            raise LocalAwsError(f"the local AWS is not installed at {self._python.parent}: run `make setup`")
        if self._keeps_directory:
            self.directory.mkdir(parents=True, exist_ok=True)
        else:
            self.directory = Path(mkdtemp(prefix="burstlab-aws-"))
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self.url

    def stop(self) -> None:
        """End it and every process it started."""
        process, self._process = self._process, None
        if process is not None:
            _stop(process)
        if not self._keeps_directory:
            rmtree(self.directory, ignore_errors=True)

    def run_cdk(self, *arguments: str, app: Path | str | None = None, cwd: Path = ROOT) -> str:
        """Run the real CDK command against it and answer what it said.

        Args:
            arguments: as the command takes them, such as ``"deploy", "--all"``.
            app: instead of the app that ``cdk.json`` names: a command, or the folder of a synthesized one.
            cwd: where to run it; a folder without ``cdk.json`` for what needs no app.

        Raises:
            LocalAwsError: it failed; with the last lines it said.
        """
        cdk = Path(sys.prefix) / "bin" / "cdk"
        if not cdk.exists():
            raise LocalAwsError(f"the CDK's command is not installed at {cdk}: run `make setup`")
        command = [str(cdk), *arguments, *_CDK_OPTIONS]
        command += ["--app", str(app)] if app is not None else []
        if not _is_synthesized(app):
            command += ["--output", str(self.directory / "cdk.out")]
        log = self.directory / f"cdk-{arguments[0]}.log"
        code, output = _run(command, cwd=cwd, env=self._cdk_environment(), log=log)
        if code:
            last_lines = "\n".join(output.rstrip().splitlines()[-_SHOWN_LOG_LINES:])
            raise LocalAwsError(f"`cdk {' '.join(arguments)}` failed ({code}):\n{last_lines}")
        return output

    def server_log(self) -> str:
        """What the server has written."""
        return (self.directory / "ministack.log").read_text(errors="replace")

    def _start(self) -> None:
        for attempt in range(1, _MAX_START_ATTEMPTS + 1):
            self._port = _free_port()
            with (self.directory / "ministack.log").open("ab") as log:
                self._process = _start_guarded(
                    [str(self._python), "-I", str(_SERVER_START)],
                    removed_directory=None if self._keeps_directory else self.directory,
                    env=self._server_environment(),
                    cwd=self.directory,
                    log=log,
                )
            if self._wait_until_ready():
                return
            if attempt < _MAX_START_ATTEMPTS and "already in use" in self.server_log():
                continue
            last_lines = "\n".join(self.server_log().rstrip().splitlines()[-_SHOWN_LOG_LINES:])
            raise LocalAwsError(f"the local AWS did not start within {_READY_TIMEOUT_S:g} s:\n{last_lines}")

    def _wait_until_ready(self) -> bool:
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            if _is_ready(self._port):
                return True
            time.sleep(_POLL_INTERVAL_S)
        return False

    def _server_environment(self) -> dict[str, str]:
        """Its own, so that functions see nothing of this process's; temporary files go into the folder."""
        temporary = self.directory / "tmp"
        temporary.mkdir(exist_ok=True)
        return _ISOLATED_AWS_ENVIRONMENT | {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(temporary),
            "TMPDIR": str(temporary),
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": str(_FUNCTION_START),  # of the functions: the server itself is isolated
            "PYTHONPYCACHEPREFIX": str(_BYTECODE),
            "BIND_HOST": "127.0.0.1",
            "MINISTACK_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(self._port),
            "MINISTACK_REGION": self.region,
            "MINISTACK_ACCOUNT_ID": self.account,
            "LAMBDA_ACCOUNT_CONCURRENCY": str(self._concurrent_executions),
            "SFTP_ENABLED": "0",
            "IOT_MTLS_ENABLED": "0",
            "DOCKER_HOST": f"unix://{temporary}/no-docker.sock",
        }

    def _cdk_environment(self) -> dict[str, str]:
        binaries = str(Path(sys.prefix) / "bin")
        inherited = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        return (
            inherited
            | self.environment
            | {
                "PATH": f"{binaries}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
                "CDK_HOME": str(self.directory),
                "CDK_DISABLE_CLI_TELEMETRY": "true",
                "CDK_DISABLE_VERSION_CHECK": "true",
                "CDK_VALIDATION": "false",  # of the templates: 7 s of each synth; `make synth` has it on
            }
        )


_ISOLATED_AWS_ENVIRONMENT: Final = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": ACCESS_KEY,
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
_CDK_OPTIONS: Final = ("--no-notices", "--no-version-reporting", "--no-color", "--ci")


def _is_synthesized(app: Path | str | None) -> bool:
    return app is not None and Path(app).is_dir()


def _start_guarded(
    command: Sequence[str], *, removed_directory: Path | None, env: Mapping[str, str], cwd: Path, log: Any
) -> subprocess.Popen[bytes]:
    """Start a command that ends, with all it started, when this process lets go of it or dies."""
    return subprocess.Popen(  # noqa: S603 - the command is ours
        [sys.executable, "-I", "-S", str(_PROCESS_GUARD), str(removed_directory or "-"), *command],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=env,
        cwd=cwd,
        start_new_session=True,
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _run(command: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path) -> tuple[int, str]:
    """Run a command to its end; its exit code and what it said, which the log keeps."""
    with log.open("a+b") as file:
        start = file.seek(0, os.SEEK_END)
        process = _start_guarded(command, removed_directory=None, env=env, cwd=cwd, log=file)
        try:
            code = process.wait(_CDK_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise LocalAwsError(f"`{command[0]}` took more than {_CDK_TIMEOUT_S:g} s; see {log}") from None
        finally:
            _stop(process)
        file.seek(start)
        return code, file.read().decode(errors="replace")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _is_ready(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/_ministack/ready")
        return connection.getresponse().status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
