"""Main."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from ddprobe_source.commands.explain import explain_site, format_price, help_text
from ddprobe_source.commands.serve_loop import Notifier, ServeLoop, lock_memory
from ddprobe_source.host.child_task import ChildTask
from ddprobe_source.host.clock import random_below, startup_s
from ddprobe_source.host.files import read_text
from ddprobe_source.host.lookup import Lookup, find_allowed_site, find_site, lookup_limit_s
from ddprobe_source.host.state_dirs import StateDirs, print_error, print_output, state_dirs_in_use
from ddprobe_source.judgement.disks import UNKNOWN_MOUNT, Site
from ddprobe_source.judgement.facts import Thresholds
from ddprobe_source.judgement.headline import headline, nagios_line
from ddprobe_source.judgement.record import ProbeError, UsageError
from ddprobe_source.judgement.tasks import STILL_S
from ddprobe_source.judgement.text import json_text, sanitise
from ddprobe_source.judgement.verdicts import EXIT_CODES, EXIT_ORDER, OK, UNKNOWN, worst
from ddprobe_source.measure.probe import Probe
from ddprobe_source.measure.reading import VERSION
from ddprobe_source.options import Options, parse_command
from ddprobe_source.outputs.outputs import FINISH_S, Outputs


def main(argv: Sequence[str]) -> int:
    """Run one command; give the exit code."""
    began_s, taken_s = time.monotonic(), startup_s()
    open_standard_streams()
    if "--version" in argv or argv == ["version"]:
        return 0 if print_output(f"ddprobe {VERSION}\n") else 3
    if "-h" in argv or "--help" in argv or not argv:
        return 0 if print_output(help_text()) and argv else 3
    style = "nagios"
    for index, word in enumerate(argv):
        if word.startswith("--exit-style"):
            style = word.partition("=")[2] or "".join(argv[index + 1 : index + 2])
    unknown = EXIT_CODES.get(style, EXIT_CODES["nagios"])[UNKNOWN]
    try:
        options = parse_command(argv)
        tag = read_text("/sys/class/dmi/id/board_asset_tag")
        instance_id = sanitise(tag) if tag.startswith("i-") else None
        startup_ms = None if taken_s is None else 1000 * taken_s
        return _run(options.replaced(startup_ms=startup_ms, instance_id=instance_id), began_s)
    except ProbeError as fault:
        is_for_nagios = style == "nagios" and argv[0] == "run"  # which reads stdout only
        if not (is_for_nagios and print_output(f"DDPROBE UNKNOWN: {fault}\n")):
            print_error(f"ddprobe: {fault}")
        return unknown
    except KeyboardInterrupt:
        return 130
    except Exception as fault:  # a traceback reads source files, and does not help operators
        print_error(f"ddprobe: fault in ddprobe itself, please report: {type(fault).__name__}: {fault}")
        if os.environ.get("DDPROBE_DEBUG"):
            raise
        return unknown


def open_standard_streams() -> None:
    """Fill the numbers 0 to 2 if the caller closed them, or one of our pipes would get such a number."""
    while (fd := os.open("/dev/null", os.O_RDWR)) <= 2:  # noqa: PLR2004 - stderr
        pass
    os.close(fd)


def _run(options: Options, began_s: float) -> int:
    if options.mode == "explain":
        return _explain(options)
    if options.jitter and options.mode == "run":
        time.sleep(random_below(options.jitter))
        began_s = time.monotonic()
    if options.nvme_json:
        import json  # noqa: F401 - now, while the disk answers
    state_dirs = StateDirs(options.run_dir)
    state_dirs_in_use[:] = [state_dirs]
    notifier = Notifier()
    lookups = [Lookup(path, state_dirs, writes=options.level != "passive") for path in options.paths]
    until_s = time.monotonic() + lookup_limit_s(options)
    probes, refused = [], []
    for lookup in lookups:
        try:
            site = find_allowed_site(options, lookup, until_s)
            probes.append(Probe(options, site, state_dirs, notifier.notify_alive))
        except ProbeError as fault:
            if len(lookups) == 1:
                raise
            refused.append(_refused_probe(options, lookup, state_dirs, notifier.notify_alive, str(fault)))
    if not probes:
        raise UsageError("; ".join(str(probe.refusal) for probe in refused))
    outputs = Outputs(options, state_dirs)
    if options.cloudwatch:
        volumes = len({volume_id for probe in probes for volume_id in probe.site.volume_ids})
        print_error(f"ddprobe: {format_price(volumes, max(options.interval, options.cloudwatch_every))}")
    for probe in probes:
        if (options.cloudwatch or options.event_bus) and not probe.site.volume_ids:
            print_error(
                f"ddprobe: nothing about {probe.site.path} goes to AWS: its volume is not known (--volume-id)"
            )
    if options.mode == "serve":
        return _serve(options, probes + refused, outputs, notifier)  # refused ones are tried again
    readings = _run_probes(options, probes, began_s)
    readings += [probe.unmeasured_reading(str(probe.refusal)) for probe in refused]
    for reading in readings:
        outputs.publish(reading)
    for reading in sorted(readings, key=lambda reading: -EXIT_ORDER.index(reading["verdict"])):
        _print_reading(options, reading, probes[0].thresholds)
    outputs.finish(FINISH_S if all(reading["completed"] for reading in readings) else 0.9)
    return EXIT_CODES[options.exit_style][worst(reading["verdict"] for reading in readings)]


def _explain(options: Options) -> int:
    state_dirs = _state_dirs_if_possible(options.run_dir)
    state_dirs_in_use[:] = [state_dirs] if state_dirs else []
    is_taken = True
    for path in options.paths:
        site = find_site(path, lookup_limit_s(options), options.volume_id, state_dirs)
        text = json_text(_site_record(site)) + "\n" if options.json else explain_site(options, site)
        is_taken &= print_output(text)
    return 0 if is_taken else 3


def _state_dirs_if_possible(wanted: str | None) -> StateDirs | None:
    """Give a folder for locks, so that a hundred explains leave one process on a stuck disk, not a hundred.

    Without one explain still answers: it is what somebody runs to find out why nothing else works.
    """
    try:
        return StateDirs(wanted)
    except ProbeError:
        if wanted:
            raise
        return None


def _run_probes(options: Options, probes: Sequence[Probe], began_s: float) -> list[dict[str, Any]]:
    """Run every probe. Several run at once, each in a child, so that one deadline holds for all of them."""
    if len(probes) == 1:
        return [probes[0].run(began_s)]

    def start(probe: Probe) -> ChildTask:
        return ChildTask(lambda send: send(probe.run(began_s)))

    children = [start(probe) for probe in probes]
    until_s = max(began_s + options.deadline, time.monotonic() + options.look) + 2 * STILL_S
    answers = [child.answer(max(0.0, until_s - time.monotonic())) for child in children]
    no_answer = "the process that measured it died or did not return by the deadline"
    return [reading or probe.unmeasured_reading(no_answer) for probe, reading in zip(probes, answers)]


def _refused_probe(
    options: Options, lookup: Lookup, state_dirs: StateDirs, heartbeat: Callable[[], None], reason: str
) -> Probe:
    """Stand for one path of several that cannot be measured: the others are."""
    site = Site(path=lookup.path, answered=False, mount=UNKNOWN_MOUNT, mounts=(), partition="", disks=())
    print_error(f"ddprobe: {reason}")
    probe = Probe(options, site, state_dirs, heartbeat)
    probe.refusal = reason
    return probe


def _site_record(site: Site) -> dict[str, Any]:
    return {
        "path": site.path,
        "mount": vars(site.mount),
        "device": site.partition,
        "volume_ids": site.volume_ids,
        "disks": [vars(disk) for disk in site.disks],
    }


def _print_reading(options: Options, reading: dict[str, Any], thresholds: Thresholds) -> None:
    if options.json == "-" or options.collectd:
        return
    by_path = len(options.paths) > 1
    if options.exit_style == "npd":
        print_output(headline(reading, 80, by_path=by_path) + "\n")
    elif options.exit_style == "nagios":
        print_output(nagios_line(reading, thresholds, by_path=by_path) + "\n")
    elif reading["verdict"] != OK:
        print_output(headline(reading, by_path=by_path) + "\n")


def _serve(options: Options, probes: Sequence[Probe], outputs: Outputs, notifier: Notifier) -> int:
    import signal

    loop = ServeLoop(options, probes, outputs, notifier)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, loop.stop)
    try:
        fault = lock_memory()
    except (ImportError, MemoryError, OSError, ValueError) as trouble:
        fault = f"memory is not locked ({trouble})"
    if fault:
        print_error(f"ddprobe: {fault}; on a sick root disk it may have to wait for its own memory pages")
    loop.serve()
    return 0


if __name__ == "__main__":
    if sys.version_info < (3, 9):  # noqa: UP036 - the message is for users of an older one
        sys.stderr.write(f"ddprobe needs Python 3.9 or newer, not {sys.version.split()[0]}\n")
        sys.exit(3)
    sys.exit(main(sys.argv[1:]))
