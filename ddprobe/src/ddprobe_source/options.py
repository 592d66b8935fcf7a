"""Options: the command line, read and checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from ddprobe_source.judgement.disks import EBS_MODEL, volume_id_of
from ddprobe_source.judgement.record import Record, UsageError
from ddprobe_source.judgement.series import BULK_WRITES, CLASSIC_CREDITS, DEFAULT_WRITES, cost_of
from ddprobe_source.judgement.text import is_port, parse_integer, parse_number, sanitise

MODES: Final = {
    "run": "run once, for cron, a timer, Nagios or node-problem-detector",
    "serve": "stay resident, with memory locked, on its own schedule",
    "passive": "read only counters and tasks, do no I/O on the disk",
    "explain": "show the mount, disk, volume and cost of a run; write nothing",
}
EVERY: Final = "run serve passive explain"
WRITING: Final = "run serve explain"
MEASURING: Final = "run serve passive"
RUNNING: Final = "run serve"
OPTIONS: Final = (
    # name, kind, default, modes, help
    ("level", "lite classic ladder passive", "ladder", WRITING, "how far to go; see LEVELS"),
    ("engine", "inproc dd", "inproc", WRITING, "what makes the classic writes: this process, or dd itself"),
    ("file", "NAME", ".ddprobe", WRITING, "the file to write in PATH; must begin with .ddprobe"),
    ("data", "zero random", "zero", RUNNING, "random if zeros cost nothing: btrfs, zfs, thin layers"),
    ("writes", "COUNT", "", RUNNING, "4 KiB writes of the lite level: 1; on the ladder 16, with serve 6"),
    ("warn", "TIME", "1s", MEASURING, "WARN when the classic dd takes, or would take, this long"),
    ("crit", "TIME", "5s", MEASURING, "CRIT from here"),
    ("ratio", "NUMBER", "10", RUNNING, "WARN at this multiple of the healthy median of an idle disk"),
    ("climb", "TIME", "100ms", RUNNING, "the ladder goes on to classic when a lite write takes this long"),
    ("classic-every", "TIME", "150s", RUNNING, "the ladder goes on to classic at most this often"),
    ("deadline", "SPAN", "30s", RUNNING, "a write that is not done by then is left alone and reported"),
    ("look", "TIME", "", "run passive", "how long to watch the counters: 1s; passive: 2s"),
    ("interval", "SPAN", "", WRITING, "how often you run it: 5m; serve: how often it writes: 30s"),
    ("passive-every", "SPAN", "5s", "serve", "how often to read the counters"),
    (
        "jitter",
        "TIME",
        "0s",
        RUNNING,
        "wait a random time up to this first, so that a fleet does not probe at once",
    ),
    ("max-credit-share", "SHARE", "1%", WRITING, "spend no more than this share of the baseline"),
    ("baseline-iops", "NUMBER", "100", WRITING, "the baseline that the share is of"),
    ("allow-fs", "FS", "", WRITING, "write on this kind of file system although it is not a local disk"),
    ("require-ebs", "", "", EVERY, "UNKNOWN if the path is not on an EBS volume"),
    ("volume-id", "ID", "", EVERY, "the volume below PATH, if the device does not report it (Xen)"),
    ("no-dstate", "", "", MEASURING, "do not look at processes"),
    ("top", "COUNT", "10", MEASURING, "groups of blocked tasks to report"),
    ("nvme-json", "FILE", "", MEASURING, "take EBS counters from a JSON file of another tool"),
    ("run-dir", "DIR", "", EVERY, "for locks and the newest readings; private, and in memory"),
    ("exit-style", "nagios npd cron", "nagios", "run passive", "what the exit code means; see EXIT CODES"),
    ("json", "FILE|-", "", EVERY, "append each reading as a line of JSON; - is stdout"),
    ("prom", "PROM", "", MEASURING, "keep a textfile for node_exporter"),
    ("collectd", "", "", MEASURING, "print PUTVAL lines for collectd's exec plugin"),
    ("graphite", "HOST:PORT", "", MEASURING, "send plaintext metrics"),
    ("graphite-prefix", "TEXT", "ddprobe", MEASURING, "prefix of the metric names"),
    (
        "cloudwatch",
        "emf api",
        "",
        EVERY,
        "two metrics for each volume: through the agent, or signed with the instance role",
    ),
    ("cloudwatch-every", "TIME", "60s", EVERY, "send the metrics at most this often"),
    ("namespace", "TEXT", "ddprobe", MEASURING, "namespace of the metrics"),
    ("event-bus", "BUS", "", MEASURING, "report stalls to the watchdog's event bus (name or ARN)"),
    ("region", "REGION", "", MEASURING, "region of the metrics and the event bus, if not the instance's"),
)
"""Every option once: parser, help and the tests of the pages read it."""


class Options(Record):
    """The command line, read and checked."""

    mode: str
    paths: tuple[str, ...]
    level: str
    engine: str
    file: str
    data: str
    writes: int
    warn: float
    crit: float
    ratio: float
    climb: float
    classic_every: float
    deadline: float
    look: float
    interval: float
    passive_every: float
    jitter: float
    max_credit_share: float
    baseline_iops: float
    allow_fs: tuple[str, ...]
    require_ebs: bool
    volume_id: str | None
    dstate: bool
    top: int
    nvme_json: str | None
    run_dir: str | None
    exit_style: str
    json: str | None
    prom: str | None
    collectd: bool
    graphite: str | None
    graphite_prefix: str
    cloudwatch: str | None
    cloudwatch_every: float
    namespace: str
    event_bus: str | None
    region: str | None
    startup_ms: float | None
    instance_id: str | None


MIN_SPAN_S: Final = 0.1
"""A shorter deadline ends before a healthy disk answers, and a shorter interval keeps a processor busy."""
UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def parse_value(kind: str, text: str) -> Any:
    """Read one option's value; None when it has not the shape its kind asks for."""
    if " " in kind:
        return text if text in kind.split() else None
    return KINDS[kind][1](text) if kind in KINDS else text or None


def _time(text: str) -> float | None:
    number = text.rstrip("mhs")
    unit, value = UNITS_S.get(text[len(number) :]), parse_number(number)
    return None if unit is None or value is None else value * unit


def _span(text: str) -> float | None:
    value = _time(text)
    return value if value is not None and value >= MIN_SPAN_S else None


def _share(text: str) -> float | None:
    value = parse_number(text.removesuffix("%"))
    share = (value or 0.0) / (100 if text.endswith("%") else 1)
    return share if 0 < share <= 1 else None


def _count(text: str) -> int | None:
    count = parse_integer(text)
    return count if count is not None and 1 <= count <= 1000 else None  # noqa: PLR2004 - see KINDS


def _address(text: str) -> str | None:
    host, _, port = text.rpartition(":")
    return text if host and is_port(port) else None


KINDS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "TIME": ("a time such as 500ms, 5s or 2m", _time),
    "SPAN": ("a time of at least 100ms", _span),
    "NUMBER": ("a number above 0", lambda text: parse_number(text) or None),
    "COUNT": ("a whole number from 1 to 1000", _count),
    "SHARE": ("a share such as 1% or 0.01, at most 100%", _share),
    "ID": (
        "a volume id such as vol-0123456789abcdef0",
        lambda text: volume_id_of(EBS_MODEL, text.replace("vol-", "vol", 1)),
    ),
    "PROM": (
        "a file whose name ends in .prom",
        lambda text: text if text.endswith(".prom") and "/" in text else None,
    ),
    "HOST:PORT": ("HOST:PORT", _address),
}
"""How each kind of value looks, and how it is read; None for what has not its shape. Others are any text."""


def parse_command(argv: Sequence[str]) -> Options:
    """Read the command line; raises UsageError with every fault in it."""
    faults: list[str] = []
    texts_by_name, paths = _split_argv(argv, faults)
    mode = paths.pop(0) if paths else ""
    if mode not in MODES:
        raise UsageError(
            f"{sanitise(mode, 40) or 'nothing'} is not one of {', '.join(MODES)}; see ddprobe --help"
        )
    values: dict[str, Any] = {}
    for name, kind, default, modes, _ in OPTIONS:
        texts = texts_by_name.pop(name, [])
        if texts and mode not in modes.split():
            faults.append(f"--{name} means nothing to {mode}")
        values[name.replace("-", "_")] = _value_of(name, kind, texts, default, faults)
    faults += [f"there is no option --{sanitise(name, 40)}" for name in texts_by_name]
    if mode == "passive":
        values["level"] = "passive"
    if values["interval"] is None:
        values["interval"] = _usual_interval(mode)
    if values["look"] is None:
        values["look"] = 2.0 if mode == "passive" else 1.0
    if not paths:
        paths = ["/"] if mode in ("passive", "explain") else ["/var/lib/ddprobe"]
    if "" in paths:
        faults.append("PATH is empty: is a variable not set?")
    if not faults:
        faults += _contradictions(mode, values)
    if faults:
        raise UsageError("; ".join(faults) + "; see ddprobe --help")
    values["dstate"] = not values.pop("no_dstate")
    return Options(mode=mode, paths=tuple(paths), startup_ms=None, instance_id=None, **values)


def _usual_interval(mode: str) -> float:
    collectd_s = parse_number(os.environ.get("COLLECTD_INTERVAL", ""))
    return max(30.0, collectd_s or 30.0) if mode == "serve" else 300.0


def _split_argv(argv: Sequence[str], faults: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    kinds = {name: kind for name, kind, *_ in OPTIONS}
    texts_by_name: dict[str, list[str]] = {}
    paths: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return texts_by_name, paths + rest
        if not word.startswith("-") or word == "-":
            paths.append(word)
            continue
        name, equals, text = word.lstrip("-").partition("=")
        if kinds.get(name) == "":
            texts_by_name.setdefault(name, []).append("yes")
        elif equals or name not in kinds:
            texts_by_name.setdefault(name, []).append(text)
        elif rest:
            texts_by_name.setdefault(name, []).append(rest.pop(0))
        else:
            faults.append(f"--{sanitise(name, 40)} needs a value")
    return texts_by_name, paths


def _value_of(name: str, kind: str, texts: list[str], default: str, faults: list[str]) -> Any:
    if kind in ("", "FS"):  # a flag, or an option that may be repeated
        return tuple(texts) if kind else bool(texts)
    text = texts[-1] if texts else default
    if not text and not texts:
        return 0 if kind == "COUNT" else None
    value = parse_value(kind, text)
    if value is None:
        shape = f"one of {', '.join(kind.split())}" if " " in kind else KINDS.get(kind, ("a value",))[0]
        faults.append(f"--{name} takes {shape}, not {sanitise(text, 60)!r}")
    return value


def _contradictions(mode: str, values: dict[str, Any]) -> list[str]:
    faults = []
    crit = f"--crit {values['crit']:g}s"
    if values["warn"] > values["crit"]:
        faults.append(f"--warn {values['warn']:g}s is above {crit}")
    if mode != "passive" and values["deadline"] < values["crit"]:
        faults.append(f"--deadline {values['deadline']:g}s is below {crit}: no verdict could be reached")
    if "/" in values["file"]:
        faults.append(f"--file is a name in PATH, not a path: {sanitise(values['file'], 60)!r}")
    elif not values["file"].startswith(".ddprobe"):
        faults.append(
            f"--file must begin with .ddprobe, so as not to name other data: {sanitise(values['file'], 60)!r}"
        )
    if values["collectd"] and values["json"] == "-":
        faults.append("--collectd and --json - both want stdout")
    if values["engine"] == "dd" and values["data"] == "random":
        faults.append("--engine dd writes zeros: leave out --data random, or take --engine inproc")
    rate = values["max_credit_share"] * values["baseline_iops"]
    level = values["level"]
    writes = values["writes"] or (DEFAULT_WRITES.get(mode, 1) if level == "ladder" else 1)
    series = cost_of("lite", writes, (), bulk=BULK_WRITES if level == "ladder" else 0)
    cost = CLASSIC_CREDITS if level == "classic" else series.credits
    if mode in ("run", "serve") and values["level"] != "passive" and cost > rate * values["interval"]:
        planned, share = cost / values["interval"], values["max_credit_share"]
        faults.append(
            f"{level} every {values['interval']:g} s spends {planned:.2g} credits/s, more than {share:.2g}"
            f" x {values['baseline_iops']:g} IOPS: every {cost / rate:.0f} s is possible"
        )
    return faults
