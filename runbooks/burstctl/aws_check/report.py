"""The report of a run, to be shared: a document, and the same as Markdown.

By default it identifies no account: account IDs, ARNs of people and roles, and encoded authorization messages
are removed from everything that AWS returned.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from burstctl.aws_check.fact import Fact
from burstctl.aws_check.not_tried import NOT_TRIED
from burstctl.aws_check.plan import NEVER_RUN_NOTICE
from burstctl.aws_check.result import FactOutcome, Result
from burstctl.aws_check.run_file import RunFile
from burstctl.aws_check.runner import describe_result
from burstwatch.core.text import format_instant

if TYPE_CHECKING:
    from documents.aws_check import AwsCheckDocument, FactDocument

SCHEMA: Final = "burstwatch.aws-check/v1"
_PRINCIPAL_PATTERN: Final = re.compile(r"arn:[\w-]+:(?:sts|iam)::[^\s\"']*")
_ACCOUNT_PATTERN: Final = re.compile(r"(?<![\w.-])\d{12}(?![\w.-])")
"""Of others too: a key or a policy in a message may be theirs."""

_REQUEST_ID_PATTERN: Final = re.compile(r"(?i)(request[ -]?id:?\s+)[\w-]*\d[\w-]*")
_ENCODED_PATTERN: Final = re.compile(r"\s*Encoded authorization failure message:.*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A run that is over; ``left`` are the resources that could not be removed, each with its reason."""

    run: RunFile
    facts: Sequence[Fact]
    ended_at_s: float
    most_usd: float
    is_aws: bool
    leftovers: Sequence[tuple[str, str, str]] = ()


def to_document(finished: FinishedRun, *, with_account: bool) -> "AwsCheckDocument":
    """As JSON; keys never disappear, and what is not known is null."""
    run = finished.run
    document: AwsCheckDocument = {
        "schema": SCHEMA,
        "run_id": run.run_id,
        "version": version("burstwatch"),
        "endpoint": "aws" if finished.is_aws else "not aws",
        "region": run.region,
        "account": run.account,
        "began_at": format_instant(run.begun_s),
        "ended_at": format_instant(finished.ended_at_s),
        "most_usd": round(finished.most_usd, 4),
        "facts": [_fact_document(fact, run.results.get(fact.name)) for fact in finished.facts],
        "not_tried": [{"name": item.name, "reason": item.reason} for item in NOT_TRIED],
        "left": [{"kind": kind, "id": key, "reason": reason} for kind, key, reason in finished.leftovers],
    }
    if with_account:
        return document
    redacted: AwsCheckDocument = _redact(document, run.account)
    return {**redacted, "account": None}


def _fact_document(fact: Fact, result: Result | None) -> "FactDocument":
    measurement = result.measurement if result else None
    return {
        "name": fact.name,
        "question": fact.question,
        "outcome": result.outcome if result else FactOutcome.NOT_MEASURED,
        "answer": measurement.answer if measurement else None,
        "values": dict(measurement.values) if measurement else {},
        "evidence": dict(measurement.evidence) if measurement else {},
        "reason": result.reason if result else "the run ended before it",
        "grant": result.grant if result else None,
        "measured_at": format_instant(result.at_s) if result else None,
    }


def _redact(value: Any, account: str) -> Any:
    """The same without the account, the caller, and encoded messages."""
    if isinstance(value, str):
        text = _PRINCIPAL_PATTERN.sub("(principal)", _ENCODED_PATTERN.sub("", value))
        text = _ACCOUNT_PATTERN.sub("(account)", text.replace(account, "(account)"))
        return _REQUEST_ID_PATTERN.sub(r"\1(request)", text)
    if isinstance(value, dict):
        return {key: _redact(item, account) for key, item in value.items()}
    return [_redact(item, account) for item in value] if isinstance(value, list) else value


def to_markdown(document: "AwsCheckDocument") -> str:
    """The document as Markdown."""
    is_aws = document["endpoint"] == "aws"
    run = f"Run `{document['run_id']}`, {document['began_at']} to {document['ended_at']}"
    lines = [
        f"# What AWS does: {document['region']}, {document['began_at'][:10]}",
        "",
        f"{run}, by `burstctl aws-check` {document['version']}.",
        "",
    ]
    lines += [
        NEVER_RUN_NOTICE if is_aws else "**The endpoint was not AWS's: this says how a simulator behaves.**",
        "",
    ]
    lines += ["| Fact | Answer |", "| --- | --- |"]
    lines += [f"| {item['name']} | {_markdown_cell(item)} |" for item in document["facts"]]
    for item in document["facts"]:
        lines += ["", f"## {item['name']}", "", item["question"], "", f"**{_markdown_cell(item)}**", ""]
        lines += [f"- reason: `{_inline_code(item['reason'])}`"] if item["reason"] else []
        lines += [
            f"- {name}: `{_inline_code(value)}`"
            for name, value in {**item["values"], **item["evidence"]}.items()
        ]
    lines += ["", "## Not tried", ""]
    lines += [f"- {item['name']}: {item['reason']}" for item in document["not_tried"]]
    if document["left"]:
        lines += ["", "## Left behind", ""]
        lines += [f"- {item['kind']} {item['id']}: {item['reason']}" for item in document["left"]]
    return "\n".join([*lines, ""])


def _markdown_cell(fact: "FactDocument") -> str:
    text = fact["answer"] or f"{fact['outcome'].replace('_', ' ')}: {fact['grant'] or fact['reason']}"
    return text.replace("|", "\\|").replace("\n", " ")


def _inline_code(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text.replace("`", "'").replace("\n", " ")


def summarise(run: RunFile, facts: Sequence[Fact]) -> list[str]:
    """A line for each fact."""
    return [
        f"{fact.name}: {describe_result(run.results[fact.name]) if fact.name in run.results else 'not tried'}"
        for fact in facts
    ]
