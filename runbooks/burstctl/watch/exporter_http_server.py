"""The metrics over HTTP, for as long as a watch runs."""

import errno
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any, Final

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from burstctl.cli.output import say
from burstctl.watch.exporter_collector import Standing
from burstctl.watch.exporter_metrics import METRICS, Kind, Metric, Reading
from burstwatch.wiring.settings import SettingsError

_SCRAPER_SILENT_S: Final = 10.0


class _Readings(Collector):
    """The readings of the moment, as prometheus_client writes them down."""

    def __init__(self, standing: Standing) -> None:
        self._standing = standing

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        told: dict[Metric, list[Reading]] = {metric: [] for metric in METRICS}
        for reading in self._standing.readings:
            told[reading.metric].append(reading)
        for metric, readings in told.items():
            if readings:
                yield _family(metric, readings)


@contextmanager
def serving(standing: Standing, *, address: str, port: int) -> Iterator[None]:
    """Answer scrapes meanwhile; port 0 is any that is free, and which one is said.

    Raises:
        SettingsError: nothing can listen there.
    """
    registry = CollectorRegistry()
    registry.register(_Readings(standing))
    ProcessCollector(registry=registry)
    try:
        server, thread = start_http_server(port, address, registry)
        _leave_slow_scrapers(server)
    except OSError as error:
        raise SettingsError(_why_not(error, address, port)) from error
    try:
        shown = f"[{address}]" if ":" in address else address
        say(f"metrics: http://{shown}:{server.server_port}/metrics{_warning(address)}")
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _leave_slow_scrapers(server: Any) -> None:
    """Each connection has a thread of its own: one that says nothing must not keep it for ever."""
    known = server.RequestHandlerClass
    server.RequestHandlerClass = type(known.__name__, (known,), {"timeout": _SCRAPER_SILENT_S})


def _family(metric: Metric, readings: Iterable[Reading]) -> GaugeMetricFamily | CounterMetricFamily:
    make = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = make(metric.full_name, metric.help, labels=metric.labels)
    for reading in readings:
        family.add_metric(reading.labels, reading.value)
    return family


def _why_not(error: OSError, address: str, port: int) -> str:
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"--metrics-address {address!r} is no address of this machine: leave it out for 127.0.0.1"
    if error.errno == errno.EADDRINUSE:
        return f"port {port} at {address} is taken: give another --metrics-port; 0 is any that is free"
    reason = error.strerror or str(error)
    return f"metrics cannot be told at {address}, port {port} ({reason}): give a --metrics-port above 1023"


def _warning(address: str) -> str:
    """Metrics have no password, so it is said where more than this machine may read them."""
    try:
        is_here = ip_address(address).is_loopback
    except ValueError:
        is_here = address == "localhost"
    return "" if is_here else " (whoever reaches this address reads the names of your volumes)"
