"""A peer that answers slowly, byte by byte."""

import socket
import threading
from contextlib import contextmanager
from types import SimpleNamespace

WITHIN_S = 0.4


LATEST_S = 5


EVERY_S = 0.05


@contextmanager
def a_peer(first, again, *, reads_request=True, accepts=True):
    """Sends ``first`` and then ``again`` for ever, on each connection."""
    over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0), backlog=16)
    listener.settimeout(0.02)
    held = []
    threads = []

    def hold(connection):
        with connection:
            try:
                if reads_request:
                    connection.recv(65536)
                connection.sendall(first)
                while not over.wait(EVERY_S):
                    connection.sendall(again)
            except OSError:
                return

    def serve():
        while accepts and not over.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            held.append(connection)
            threads.append(threading.Thread(target=hold, args=(connection,)))
            threads[-1].start()

    server = threading.Thread(target=serve)
    server.start()
    try:
        yield SimpleNamespace(port=listener.getsockname()[1], held=held)
    finally:
        over.set()
        server.join()
        for thread in threads:
            thread.join()
        listener.close()
