"""Help, and what a run costs."""

from __future__ import annotations

import os
from typing import Final

from ddprobe_source.host.disk_watch import keeps_counters
from ddprobe_source.judgement.disks import Site, refuse_foreign
from ddprobe_source.judgement.record import UsageError
from ddprobe_source.judgement.series import BULK_WRITES, CLASSIC_BLOCKS, DEFAULT_WRITES, cost_of
from ddprobe_source.judgement.text import format_duration
from ddprobe_source.options import MODES, OPTIONS, Options

USD_PER_METRIC_MONTH: Final = 0.30
USD_PER_1000_PUTS: Final = 0.01
MONTH_S: Final = 30 * 86400


def format_price(volumes: int, every_s: float) -> str:
    """Say what the metrics cost before they are sent: they are the one output with a price."""
    metrics = 2 * volumes * USD_PER_METRIC_MONTH
    calls = MONTH_S / every_s / 1000 * USD_PER_1000_PUTS
    return (
        f"CloudWatch: 2 metrics for {volumes} volume(s) are ${metrics:.2f} a month, one call each "
        f"{format_duration(every_s)} ${calls:.2f}"
        " (us-east-1, 30 days; with emf log ingestion instead of calls)"
    )


LEVELS_HELP: Final = """\
LEVELS (with the credits of one run, flushes included)
  passive   0    only the kernel's counters and tasks.
  lite      2    one 4 KiB synchronous write, in place.
  classic  86    dd if=/dev/zero bs=1M count=10 oflag=sync.
  ladder   42    passive, 16 lite writes (serve: 6) and two of 1 MiB;
                 classic if they are slow.

EXIT CODES
  nagios    0 OK, 1 WARN, 2 CRIT, 3 UNKNOWN (not measured, usage error).
  npd       0 OK, 1 problem, 2 unknown; one line of at most 80 characters.
  cron      0 for every measured verdict, 3 otherwise; prints what is not OK.
"""
EXAMPLES_HELP: Final = """\
EXAMPLES
  ddprobe explain /data                show its disk, and what a run would cost.
  ddprobe run /data                    the ladder, with an exit code for Nagios.
  ddprobe run --level classic --engine dd /data     dd itself.
  ddprobe passive --json -             show stuck tasks, with no disk I/O.
  ddprobe serve --prom /run/ddprobe/ddprobe.prom /data     for node_exporter.

What to do about a stall: /usr/share/doc/ddprobe/runbooks/HostStallReported.md
Fields, cost and caveats: ddprobe.md
"""


def help_text() -> str:
    """Everything there is to ask for, in 80 columns."""
    lines = ["usage: ddprobe run|serve|passive|explain [OPTIONS] [PATH...]", ""]
    lines += ["How long does a synchronous write to this disk take, and which tasks are stuck?", ""]
    lines += [f"  {mode:<8} {description}" for mode, description in MODES.items()]
    lines += ["", "PATH is a directory; if none is named: /var/lib/ddprobe, or / to read only."]
    lines += ["A TIME is 500ms, 5s or 2m, for example, and a SPAN is a TIME of at least 100ms."]
    lines += ["", "OPTIONS"]
    for name, kind, default, _, description in OPTIONS:
        argument = {"NUMBER": "N", "COUNT": "N", "PROM": "FILE"}.get(kind, "|".join(kind.split()))
        lines.append(f"  --{name} {argument}".rstrip())
        lines += _wrap(description + (f" (default {default})" if default else ""), "      ")
    return "\n".join([*lines, "  --help, --version", "", LEVELS_HELP, EXAMPLES_HELP])


def _wrap(text: str, indent: str) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(indent) + len(lines[-1]) + 1 + len(word) > 80:  # noqa: PLR2004 - columns of a terminal
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return [indent + line for line in lines]


def explain_site(options: Options, site: Site) -> str:
    """What a path stands on and what a run costs there."""
    mount = site.mount
    rows = [
        ("path", site.path if site.answered else f"{site.path} (the disk did not answer)"),
        ("mount", f"{mount.point} ({mount.fs}, {mount.options})"),
        ("device", f"{site.partition or mount.source} ({mount.dev})"),
    ]
    for disk in site.disks:
        rows.append(("disk", f"{disk.name}, {disk.size_gib:.4g} GiB, {disk.model or 'no model'}"))
        rows.append(("volume", disk.volume_id or "not an EBS volume, or it does not say: --volume-id"))
        rows.append(("requests", f"up to {disk.max_io_kib} KiB; cache {disk.write_cache}"))
        if not keeps_counters(disk):
            rows.append(("counters", "off (queue/iostats is 0): the cause of a stall will be unknown"))
    if not site.disks:
        rows.append(("disk", "none with counters: the cause of a stall will be unknown"))
    try:
        refuse_foreign(site, options.allow_fs)
        rows.append(("own file", f"{os.path.join(site.path, options.file)}, at most 10 MiB"))
    except UsageError as refusal:
        rows.append(("refused", str(refusal)))
    rows += _cost_rows(options, site)
    if options.cloudwatch:
        every_s = max(options.interval, options.cloudwatch_every)
        rows.append(("price", format_price(max(1, len(site.volume_ids)), every_s)))
    return "\n".join(_row(name, text) for name, text in rows) + "\n"


def _row(name: str, text: str) -> str:
    first, *others = _wrap(text, " " * 11)
    return "\n".join([f"{name:<10} {first.strip()}", *others])


def _cost_rows(options: Options, site: Site) -> list[tuple[str, str]]:
    rows = []
    share = options.max_credit_share * options.baseline_iops
    ladder = DEFAULT_WRITES["run"]
    for level, writes in (("lite", 1), ("ladder", ladder), ("classic", CLASSIC_BLOCKS)):
        bulk = BULK_WRITES if level == "ladder" else 0
        cost = cost_of("lite" if level == "ladder" else level, writes, site.disks, bulk=bulk)
        used = 100 * cost.credits / options.interval / options.baseline_iops
        flushes = f"{cost.flushes} flush" + "es" * (cost.flushes > 1)
        writes_text = f"{cost.writes} write{'s' * (cost.writes > 1)} and {flushes}, {cost.credits} credits"
        often = f"{used:.2g} % of {options.baseline_iops:g} IOPS every {format_duration(options.interval)}"
        rows.append((level, f"{writes_text}: {often}; at most every {cost.credits / share:.0f} s"))
    return rows
