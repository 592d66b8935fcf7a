"""Servers that run beside the code that uses them, from ``start`` to ``stop``, or in a ``with`` statement."""

from abc import ABC, abstractmethod
from socketserver import BaseServer
from threading import Event, Thread
from typing import Generic, Self, TypeVar

Server = TypeVar("Server", bound=BaseServer)


class Startable(ABC):
    """What a ``with`` statement starts and stops."""

    @abstractmethod
    def start(self) -> str:
        """Start, and return the URL."""

    @abstractmethod
    def stop(self) -> None:
        """Stop all that was started."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class BackgroundServer(Startable, Generic[Server]):
    """A server in a thread, which ``_make_server`` makes at each start."""

    def __init__(self) -> None:
        self._stop_requested = Event()
        self._server: Server | None = None
        self._thread: Thread | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """The address; an error if it is not running."""

    @abstractmethod
    def _make_server(self) -> Server:
        """Make the server for one start."""

    def start(self) -> str:
        """Start the server in a thread, and return its URL."""
        self._stop_requested.clear()
        self._server = self._make_server()
        self._thread = Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, name="burstlab", daemon=True
        )
        self._thread.start()
        return self.url

    def stop(self) -> None:
        """Stop serving and close every connection; calls being held are let go."""
        self._stop_requested.set()
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
        self._server = self._thread = None
