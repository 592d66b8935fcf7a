"""The fake ``aws`` as a command of its own, without the second that a process takes to import boto3."""

import json
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from socketserver import StreamRequestHandler, TCPServer

from support.runbooks.fake_aws_cli import FakeAwsCli
from support.serving import serving

_COMMAND = """#!{python} -IS
import json, os, socket, sys

with socket.create_connection(("127.0.0.1", {port}), timeout=600) as connection:
    with connection.makefile("rw", encoding="utf-8") as stream:
        print(json.dumps([os.getcwd(), sys.argv[1:]]), file=stream, flush=True)
        answer = stream.readline() or sys.exit("aws: the test has failed; its log says why")
        code, out, err = json.loads(answer)
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(code)
"""


@contextmanager
def serve_aws_command(cli: FakeAwsCli, folder: Path) -> Iterator[None]:
    """Put the command into the folder. This process does its work, where the command was started."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            cwd, arguments = json.loads(self.rfile.readline())
            with chdir(cwd):
                answer = cli.run(arguments)
            self.wfile.write(json.dumps(answer).encode() + b"\n")

    server = TCPServer(("127.0.0.1", 0), Handler)
    with serving(server):
        command = folder / "aws"
        command.write_text(_COMMAND.format(python=sys.executable, port=server.server_address[1]))
        command.chmod(0o755)
        yield
