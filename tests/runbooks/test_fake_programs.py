"""What stands in for a program knows no word that the program does not, and says what it says."""

import json
import os
import re
import shutil
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer

import pytest

from support.runbooks.fake_programs import CDK, FAKE_PROGRAMS, INFO, SYSTEMCTL, USAGE_EXIT_CODE, docker
from support.serving import serving

FORMAT = "{{.Driver}} {{.LoggingDriver}} {{.DockerRootDir}}"
REAL_CDK = Path(sys.prefix) / "bin" / "cdk"


def output_of(*arguments, **environment):
    result = subprocess.run(
        arguments,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return result.returncode, result.stdout, result.stderr


class FakeDockerDaemon(BaseHTTPRequestHandler):
    """As much of Docker's API as its command asks for to report a daemon."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        reported = json.dumps(INFO if self.path.endswith("/info") else {}).encode()
        self.send_response(200)
        self.send_header("Api-Version", "1.41")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reported)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else reported)

    do_HEAD = do_GET  # noqa: N815 - http.server calls it so

    def address_string(self):
        return "docker"

    def log_message(self, *_):
        pass


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


@pytest.mark.skipif(shutil.which("docker") is None, reason="there is no docker here to compare with")
def test_the_real_docker_reports_the_same_of_such_a_daemon(tmp_path):
    socket = tmp_path / "docker.sock"
    with serving(_Server(str(socket), FakeDockerDaemon)):
        real = output_of(
            "docker", "info", "--format", FORMAT, DOCKER_HOST=f"unix://{socket}", HOME=str(tmp_path)
        )
    assert real[:2] == docker(["info", "--format", FORMAT])[:2] == (0, "overlay2 json-file /var/lib/docker\n")


@pytest.mark.skipif(shutil.which("systemctl") is None, reason="there is no systemctl here to compare with")
def test_the_real_systemctl_knows_every_command_and_option():
    _, output, _ = output_of("systemctl", "--help", "--no-pager")
    for command, options in SYSTEMCTL.items():
        assert re.search(rf"^ +{command} ", output, re.MULTILINE), command
        for option in options:
            assert re.search(rf"^ .*{option}\b", output, re.MULTILINE), option


@pytest.mark.skipif(not REAL_CDK.exists(), reason="the CDK's command is not installed: make setup")
def test_the_real_cdk_knows_every_option():
    for command, options in CDK.items():
        if options:
            code, output, _ = output_of(str(REAL_CDK), command, "--help")
            assert code == 0
            assert {option for option in options if f"{option} " not in output} == set()


@pytest.mark.parametrize(
    "line",
    [
        "docker info",
        "docker info --format {{.Nothing}}",
        "docker ps --format {{.Driver}}",
        "systemctl",
        "systemctl list-units --fialed",
        "systemctl rstart docker",
        "cdk deploy --al",
        "cdk destroy",
    ],
)
def test_any_other_word_is_refused(line):
    name, *arguments = line.split()
    code, out, err = FAKE_PROGRAMS[name](arguments)
    assert (code, out) == (USAGE_EXIT_CODE, "")
    assert err
