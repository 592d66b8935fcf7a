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

from burstctl.cli.output import print_info
from burstctl.watch.exporter_collector import FleetCollector
from burstctl.watch.exporter_metrics import METRICS, Metric, MetricKind, MetricValue
from burstwatch.core.errors import Problem
from burstwatch.wiring.settings import SettingsError

_SCRAPER_TIMEOUT_S: Final = 10.0
"""Prometheus' own default for a scrape; a hanging client must not occupy a thread."""


class _MetricsCollector(Collector):
    """The readings of the moment, as prometheus_client writes them down."""

    def __init__(self, collector: FleetCollector) -> None:
        self._collector = collector

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        by_metric: dict[Metric, list[MetricValue]] = {metric: [] for metric in METRICS}
        for metric_value in self._collector.metric_values:
            by_metric[metric_value.metric].append(metric_value)
        for metric, metric_values in by_metric.items():
            if metric_values:
                yield _metric_family(metric, metric_values)


@contextmanager
def metrics_server(collector: FleetCollector, *, address: str, port: int) -> Iterator[None]:
    """Serve metrics in the context; port 0 chooses a free port, which is printed.

    Raises:
        SettingsError: nothing can listen there.
    """
    registry = CollectorRegistry()
    registry.register(_MetricsCollector(collector))
    ProcessCollector(registry=registry)
    try:
        server, thread = start_http_server(port, address, registry)
        _time_out_slow_scrapers(server)
    except OSError as error:
        raise SettingsError(_listen_error(error, address, port)) from error
    try:
        url_host = f"[{address}]" if ":" in address else address
        print_info(f"metrics: http://{url_host}:{server.server_port}/metrics{_exposure_warning(address)}")
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _time_out_slow_scrapers(server: Any) -> None:
    """Time out silent connections, because each occupies a thread."""
    handler_class = server.RequestHandlerClass
    server.RequestHandlerClass = type(
        handler_class.__name__, (handler_class,), {"timeout": _SCRAPER_TIMEOUT_S}
    )


def _metric_family(
    metric: Metric, metric_values: Iterable[MetricValue]
) -> GaugeMetricFamily | CounterMetricFamily:
    family_type = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
    family = family_type(metric.full_name, metric.help, labels=metric.labels)
    for metric_value in metric_values:
        family.add_metric(metric_value.labels, metric_value.value)
    return family


def _listen_error(error: OSError, address: str, port: int) -> Problem:
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return Problem(
            f"--metrics-address {address!r} is not an address of this machine", "omit it for 127.0.0.1"
        )
    if error.errno == errno.EADDRINUSE:
        return Problem(
            f"port {port} at {address} is taken", "give another --metrics-port; 0 is any free port"
        )
    reason = error.strerror or str(error)
    return Problem(
        f"metrics cannot be served at {address}, port {port} ({reason})", "give a --metrics-port above 1023"
    )


def _exposure_warning(address: str) -> str:
    """Metrics have no password, so a warning is shown if other machines can read them."""
    try:
        is_loopback = ip_address(address).is_loopback
    except ValueError:
        is_loopback = address == "localhost"
    return "" if is_loopback else " (anyone who can reach this address can read the names of your volumes)"
