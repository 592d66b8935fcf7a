"""The settings of a stage: one YAML file, whose faults are all reported at once, with their lines.

A stage file is optional: by default the watchdog sends alerts, and modifies only volumes that opted in.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml
from botocore.session import Session

T = TypeVar("T")

ROOT: Final = Path(__file__).parents[1]
DEPLOYMENTS: Final = "deployments"
"""``/burstwatch/deployments`` in Parameter Store lists the deployments, so no stage may have this name."""

LOG_RETENTION_DAYS: Final = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731),
    *(1096, 1827, 2192, 2557, 2922, 3288, 3653),
)
_MAX_TAGS: Final = 40  # AWS allows 50 tags on a resource; the stack adds its own to those of the stage
_MAX_FAULTS: Final = 50  # more than this are usually one mistake, such as the wrong file
_MIN_BALANCE_PCT, MAX_BALANCE_PCT = 1, 95


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFault:
    """A fault, with the line of the file if it has one."""

    location: str
    path: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.location, self.path, self.message) if part)


class StageError(Exception):
    """A stage was rejected; ``faults`` holds every reason at once."""

    def __init__(self, faults: tuple[StageFault, ...]) -> None:
        heading = f"{len(faults)} {'fault' if len(faults) == 1 else 'faults'} in the configuration"
        super().__init__("\n  ".join([heading, *map(str, faults)]))
        self.faults = faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipients:
    """Who is notified of alerts."""

    emails: tuple[str, ...] = ()
    slack_secret: str | None = None
    """Name or ARN of the secret that holds the address of a Slack webhook."""
    chat: bool = False
    """Whether to create a second topic, in the format of AWS's chat service."""

    @property
    def has_any(self) -> bool:
        return bool(self.emails or self.slack_secret or self.chat)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageConfig:
    """One deployment; ``read_stage`` reads it."""

    name: str = "burstwatch"
    account: str | None = None
    regions: tuple[str, ...] = ()
    """The regions, with a stack in each; none: one stack, in the region of the person who deploys."""
    policy: Path = ROOT / "policy.yaml"
    schedule: bool = True
    flips: bool = True
    """False: no flip function, no queue, and no permission to modify anything."""
    resources: tuple[str, ...] = ("ebs",)
    """The kinds of resources that the stack has permission to watch; the policy says which it does watch."""
    recipients: Recipients = field(default_factory=Recipients)
    lowest_burst_balance_pct: int | None = None
    """The threshold of CloudWatch's own backstop alarm, which AWS charges for; None: no such alarm."""
    dashboard: bool = True
    ledger: str | None = None
    """The name of an existing table; None: the stack creates one, and retains it when it is deleted."""
    log_retention_days: int = 30
    tracing: bool = False
    architecture: str = "arm64"
    """The architecture of the functions; x86_64 for regions where Lambda has no arm64."""
    permissions_boundary: str | None = None
    """Name or ARN of the managed policy that is the permissions boundary of every role; None: no boundary."""
    tags: Mapping[str, str] = field(default_factory=dict)


def read_stage(path: Path | None) -> tuple[StageConfig, list[StageFault]]:
    """The stage that a file describes, with defaults for what is missing; and the faults, sorted by line.

    A faulty setting has its default for now, so that the settings that depend on it are checked as well.
    """
    if path is None:
        return StageConfig(), []
    reader = _StageReader(path)
    root = reader.root()
    stage = StageConfig(**_read_settings(reader, root)) if root is not None else StageConfig()
    return stage, _limit_faults(sorted(reader.faults, key=reader.line_number), path)


def _limit_faults(faults: list[StageFault], path: Path) -> list[StageFault]:
    """The first faults, and the number of the others if there are very many."""
    omitted_count = len(faults) - _MAX_FAULTS
    summary_fault = StageFault(
        location=str(path), path="", message=f"{omitted_count} more faults; fix these first"
    )
    return [*faults[:_MAX_FAULTS], summary_fault] if omitted_count > 0 else faults


def _read_settings(reader: "_StageReader", root: yaml.MappingNode) -> dict[str, Any]:
    """Every setting in the file; also reports faults of combinations of settings."""
    settings = reader.section(root, "", _SETTING_PARSERS, {"recipients", "alarms", "tags"})
    recipients = reader.section(settings.pop("recipients", None), "recipients.", _RECIPIENT_PARSERS)
    alarms = reader.section(settings.pop("alarms", None), "alarms.", _ALARM_PARSERS)
    tags = reader.tags(settings.pop("tags", None))
    if "policy" in settings:
        settings["policy"] = reader.path.parent / settings["policy"]
        if not _is_file(settings["policy"]):
            reader.add_fault(
                "policy", f"there is no file {settings.pop('policy')}; write its path as seen from this file"
            )
    for key, default in _DEFAULTS_OF_LISTS.items():
        if settings.get(key) == () and not any(fault.path.startswith(key) for fault in reader.faults):
            reader.add_fault(key, f"it names none; write one at least, or leave it out for {default}")
    regions = settings.get("regions", ())
    if len({_partition(region) for region in regions}) > 1:
        reader.add_fault(
            "regions",
            "these are of several partitions (such as aws and aws-cn), and no account is; split them",
        )
    if len(regions) > 1 and "ledger" in settings:
        reader.add_fault(
            "ledger", f"one table cannot serve {len(regions)} regions; a file for each region, then"
        )
    if len(regions) > 1 and recipients.get("slack_secret", "").startswith("arn:"):
        reader.add_fault(
            "recipients.slack_secret", "an ARN is of one region; write the name that it has in each"
        )
    elif (fault := _arn_fault(recipients.get("slack_secret", ""), regions)) is not None:
        reader.add_fault("recipients.slack_secret", fault)
    return {**settings, **alarms, "recipients": Recipients(**recipients), "tags": tags}


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as a name that no file system takes
        return False


def _arn_fault(secret: str, regions: Sequence[str]) -> str | None:
    """What is wrong with a secret's ARN, apart from its form."""
    if not secret.startswith("arn:"):
        return None
    secret_region = secret.split(":")[3]
    if regions and secret_region != regions[0]:
        return (
            f"the secret is in {secret_region}, the stack in {regions[0]}; write the name of one that is"
            " there"
        )
    if not re.search(r"-[A-Za-z0-9]{6}$", secret):
        return "an ARN ends in six characters of AWS's; write it whole, or the name alone"
    return None


def _partition(region: str) -> str:
    return next((prefix for prefix in ("cn-", "us-gov-", "eusc-", "us-iso") if region.startswith(prefix)), "")


def _pattern_parser(pattern: str, expectation: str) -> Callable[[str], str]:
    """A parser for text that matches a pattern.

    ``expectation`` says what is accepted (``a region: write one such as …``).
    """

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r} is not {expectation}")
        return text

    return parse


def _parse_name(text: str) -> str:
    parsed = _pattern_parser(
        r"[A-Za-z][A-Za-z0-9-]{0,39}",
        "a name: write a letter, then letters, digits and hyphens, 40 in all at most",
    )(text)
    if parsed == DEPLOYMENTS:
        raise ValueError(f"{text!r} is what the list of deployments is called; write another name")
    return parsed


def _parse_bool(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(f"{text!r} is neither true nor false")
    return text == "true"


def _parse_retention(text: str) -> int:
    if not text.isdecimal() or int(text) not in LOG_RETENTION_DAYS:
        days = ", ".join(map(str, LOG_RETENTION_DAYS))
        raise ValueError(f"{text!r} is not a retention time that CloudWatch has; write days out of {days}")
    return int(text)


def _parse_secret(text: str) -> str:
    """The name of a secret. The text may *be* the secret, so messages do not quote it."""
    if not re.fullmatch(
        r"(arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:)?[A-Za-z0-9/_+=.@-]{1,500}", text
    ):
        raise ValueError(
            "this is not the name of a secret; put the webhook's address into Secrets Manager,"
            " and its name here"
        )
    return text


def _parse_balance(text: str) -> int | None:
    if text == "off":
        return None
    if not text.isdecimal() or not _MIN_BALANCE_PCT <= int(text) <= MAX_BALANCE_PCT:
        raise ValueError(
            f"{text!r} is not a balance to alarm at; write off, or a whole number from"
            f" {_MIN_BALANCE_PCT} to {MAX_BALANCE_PCT}"
        )
    return int(text)


_parse_region_form: Final = _pattern_parser(
    r"[a-z]{2,4}(-[a-z]+){1,2}-[0-9]{1,2}", "a region; write one such as eu-central-1"
)


def _parse_region(text: str) -> str:
    """A Region that botocore knows, or one that may be newer: its name has the same words."""
    region: str = _parse_region_form(text)
    session = Session()
    known = [
        name
        for partition in session.get_available_partitions()
        for name in session.get_available_regions("ec2", partition)
    ]
    known_parts = {part for name in known for part in name.split("-")[:-1]}
    if not known_parts.issuperset(region.split("-")[:-1]):
        close = get_close_matches(region, known) or ["eu-central-1"]
        raise ValueError(f"{text!r} is not a region; write one such as {' or '.join(close)}")
    return region


_parse_account: Final = _pattern_parser(r"[0-9]{12}", "an account; write its twelve digits, in quotes")
_parse_email: Final = _pattern_parser(
    r"[^@\s,;<>]{1,64}@[A-Za-z0-9][A-Za-z0-9.-]{0,250}\.[A-Za-z]{2,}",
    "an e-mail address; write one such as oncall@example.com",
)
_parse_table: Final = _pattern_parser(
    r"[A-Za-z0-9_.-]{3,255}", "a table; write the name of the ledger to go on with, without dynamodb:"
)
_parse_path: Final = _pattern_parser(r"[^\0]+", "a file; write a path, as seen from this file")
_parse_tag: Final = _pattern_parser(
    r"(?!(?i:aws:))[\w .:/=+@-]{1,128}", "what a tag may hold: letters, digits, spaces and _.:/=+-@, not aws:"
)

_parse_resource: Final = _pattern_parser(
    r"ebs|instance|efs|rds", "a kind of resource; write ebs, instance, efs or rds"
)

_LIST_MARKER: Final = "list"
_SETTING_PARSERS: Final[dict[str, Any]] = {
    "name": _parse_name,
    "account": _parse_account,
    "regions": (_LIST_MARKER, _parse_region),
    "policy": _parse_path,
    "resources": (_LIST_MARKER, _parse_resource),
    "schedule": _parse_bool,
    "flips": _parse_bool,
    "dashboard": _parse_bool,
    "ledger": _parse_table,
    "log_retention_days": _parse_retention,
    "tracing": _parse_bool,
    "architecture": _pattern_parser(r"arm64|x86_64", "an architecture of Lambda's; write arm64 or x86_64"),
    "permissions_boundary": _pattern_parser(
        r"(arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/)?[\w+=,.@/-]{1,512}",
        "a managed policy; write its name, with its path if it has one, or its ARN",
    ),
}
_DEFAULTS_OF_LISTS: Final = {"regions": "the one that AWS tools use here", "resources": "ebs alone"}
"""The lists that would mean nothing if they were empty, and what applies without them."""
_RECIPIENT_PARSERS: Final[dict[str, Any]] = {
    "emails": (_LIST_MARKER, _parse_email),
    "slack_secret": _parse_secret,
    "chat": _parse_bool,
}
_ALARM_PARSERS: Final[dict[str, Any]] = {"lowest_burst_balance_pct": _parse_balance}


class _StageReader:
    """A YAML file whose scalars are text; collects the faults."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[StageFault] = []
        self._lines: dict[str, int] = {}

    def add_fault(self, path: str, message: str) -> None:
        """Add a fault of the setting at this path."""
        line = self._lines.get(path)
        location = f"{self.path}:{line}" if line else str(self.path)
        self.faults.append(
            StageFault(location=location, path=_shorten(path, 120), message=_shorten(message, 600))
        )

    def line_number(self, fault: StageFault) -> int:
        """The line of a fault, by which the faults are sorted."""
        return self._lines.get(fault.path, 0)

    def root(self) -> yaml.MappingNode | None:
        """The whole document; None if the file is empty or cannot be read."""
        try:
            root = yaml.compose(self.path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
        except OSError as error:
            self.add_fault("", f"cannot be read: {error.strerror}; give the path of the stage file")
        except UnicodeDecodeError as error:
            self.add_fault("", f"not UTF-8 at byte {error.start}; save it as UTF-8")
        except yaml.YAMLError as error:
            self.add_fault("", f"not YAML: {' '.join(str(error).split())}; fix the syntax")
        except RecursionError:
            self.add_fault("", "nested too deeply to be read; a stage has three levels")
        else:
            if root is None or isinstance(root, yaml.MappingNode):
                return root
            self.add_fault("", f"must be a mapping such as 'name: burstwatch', not {_node_kind(root)}")
        return None

    def section(
        self,
        node: yaml.Node | None,
        path: str,
        settings: Mapping[str, Any],
        sections: frozenset[str] | set[str] = frozenset(),
    ) -> dict[str, Any]:
        """The settings below this node, parsed; the nodes of ``sections`` unchanged."""
        parsed: dict[str, Any] = {}
        for key, value_node in self._items(node, path):
            if key in sections:
                parsed[key] = value_node
            elif key in settings:
                self._parse(parsed, key, value_node, f"{path}{key}", settings[key])
            else:
                self.add_fault(f"{path}{key}", _unknown_key_message(key, sorted([*settings, *sections])))
        return parsed

    def tags(self, node: yaml.Node | None) -> dict[str, str]:
        """The stack's tags; the keys are free."""
        parsed: dict[str, str] = {}
        for key, value_node in self._items(node, "tags."):
            self._parse(parsed, key, value_node, f"tags.{key}", _parse_tag)
            try:
                _parse_tag(key)
            except ValueError as fault:
                self.add_fault(f"tags.{key}", str(fault))
        if len(parsed) > _MAX_TAGS:
            self.add_fault("tags", f"{len(parsed)} tags, and {_MAX_TAGS} at most; leave some out")
        return parsed

    def _items(self, node: yaml.Node | None, path: str) -> list[tuple[str, yaml.Node]]:
        """The keys of a mapping node with their values; reports keys that occur twice."""
        if not isinstance(node, yaml.MappingNode):
            if node is not None and node.value != "":
                self.add_fault(
                    path.rstrip("."), f"{_node_kind(node)} is not a section; indent its settings below it"
                )
            return []
        nodes: dict[str, yaml.Node] = {}
        for key_node, value_node in node.value:
            key = (
                str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else f"<{_node_kind(key_node)}>"
            )
            line = key_node.start_mark.line + 1
            self._lines.setdefault(f"{path}{key}", line)
            if key in nodes:
                self.add_fault(f"{path}{key}", f"given twice, again at line {line}; keep one")
            nodes[key] = value_node
        return list(nodes.items())

    def _parse(self, parsed: dict[str, Any], key: str, node: yaml.Node, path: str, parser: Any) -> None:
        try:
            parsed[key] = (
                self._parse_list(node, path, parser[1])
                if isinstance(parser, tuple)
                else parser(_scalar(node))
            )
        except ValueError as fault:
            self.add_fault(path, str(fault))

    def _parse_list(self, node: yaml.Node, path: str, parse: Callable[[str], T]) -> tuple[T, ...]:
        """The entries of a list; reports entries that occur twice."""
        if not isinstance(node, yaml.SequenceNode):
            raise ValueError(f"{_node_kind(node)} is not a list; write [one, another]")  # noqa: TRY004 - a fault like others
        entries: list[T] = []
        for index, entry_node in enumerate(node.value, 1):
            entry_path = f"{path}[{index}]"
            self._lines[entry_path] = entry_node.start_mark.line + 1
            try:
                entry = parse(_scalar(entry_node))
            except ValueError as fault:
                self.add_fault(entry_path, str(fault))
                continue
            if entry in entries:
                self.add_fault(entry_path, f"{entry_node.value!r} is given twice; keep one")
            entries.append(entry)
        return tuple(entries)


def _unknown_key_message(key: str, known_keys: Sequence[str]) -> str:
    close = get_close_matches(key[:60], known_keys, n=1)
    hint = f"did you mean {close[0]}? Known" if close else "known"
    return f"unknown key; {hint} here: {', '.join(known_keys)}"


def _scalar(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError(f"{_node_kind(node)} is not a single value; write it on one line after the colon")  # noqa: TRY004
    return str(node.value)


def _shorten(text: str, max_chars: int) -> str:
    """The text of a fault, printable. A long one keeps both ends, because the advice is at the end."""
    safe_text = "".join(character if character.isprintable() else "?" for character in text)
    return (
        safe_text
        if len(safe_text) <= max_chars
        else f"{safe_text[: max_chars // 2]} … {safe_text[-max_chars // 2 :]}"
    )


def _node_kind(node: yaml.Node) -> str:
    return "a " + type(node).__name__.removesuffix("Node").lower()
