"""The ledger: where everything is remembered, whether it can be written to, and who holds what."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from burstctl.context.sqlite_inspect import LedgerFile, inspect_ledger_file
from burstctl.doctor.context import DoctorContext
from burstctl.doctor.finding import Finding, LookupFailedError, broken, from_error, ok, skipped, warning
from burstctl.render.pass_summary import describe_hold
from burstwatch.adapters.aws.errors import AwsError, FailureKind, translate_errors
from burstwatch.adapters.ledger.sqlite_schema import SCHEMA_VERSION, recovery_step
from burstwatch.core.buckets.units import MIB
from burstwatch.wiring.bootstrap import ledger_origin
from burstwatch.wiring.settings import LedgerAddress, LedgerKind

_MAX_HOLDS: Final = 5  # the screen is for faults; assess lists all holds


def check_ledger(context: DoctorContext) -> Iterator[Finding]:
    """Where it is, and whether it can be used."""
    address = context.settings().ledger
    if address.kind is LedgerKind.SQLITE:
        yield from _check_file(context, address)
    else:
        yield _check_table(context, address)
    yield from _check_stack_ledger(context, address)


def check_holds(context: DoctorContext) -> Iterator[Finding]:
    """The holds of people; a hold on everything is the kill switch, with which nothing is flipped."""
    now_s = context.now_s()
    holds = context.ledger().holds(now_s)
    for hold in holds[:_MAX_HOLDS]:
        description = describe_hold(hold, now_s)
        if hold.volume_id is None:
            fix = "if that is over, release it; until then nothing is flipped or returned"
            yield warning(
                description, fix=fix, commands=(context.burstctl_command("release", hold.subject or "--all"),)
            )
        else:
            yield ok(description)
    if len(holds) > _MAX_HOLDS:
        yield ok(f"and {len(holds) - _MAX_HOLDS:,} more, see {context.burstctl_command('assess')}")
    if not holds:
        yield ok("nothing is held")


def _check_file(context: DoctorContext, address: LedgerAddress) -> Iterator[Finding]:
    path = address.path
    if not path.exists():
        yield judge_missing_file(path, can_be_created=_can_create(path))
        return
    yield from judge_file(path, inspect_ledger_file(path))
    yield from _check_origin(context, path)


def judge_missing_file(path: Path, *, can_be_created: bool) -> Finding:
    """A ledger that is not there is made by who first needs one, if that is allowed."""
    if can_be_created:
        return skipped(f"sqlite:{path} does not exist yet: the first watch or flip creates it")
    summary = f"sqlite:{path} does not exist and cannot be created: its directory is not writable"
    fix = "name another file with --ledger sqlite:PATH or in BURSTWATCH_LEDGER, or change who owns it"
    return broken(summary, fix=fix)


def judge_file(path: Path, file: LedgerFile) -> Iterator[Finding]:
    """A file that is whole, of a schema that is known, and can be written to."""
    summary = f"sqlite:{path}, schema {file.schema}, {file.size_bytes / MIB:,.1f} MiB"
    if file.faults:
        yield broken(f"sqlite:{path} is damaged: {'; '.join(file.faults)}", fix=recovery_step(path))
    elif file.schema > SCHEMA_VERSION:
        summary = (
            f"{summary}: written by a newer burstwatch; this one supports schemas up to {SCHEMA_VERSION}"
        )
        yield broken(summary, fix="update burstwatch, or name another file with --ledger sqlite:PATH")
    elif not file.is_writable:
        fix = "change who owns it, or name another file with --ledger sqlite:PATH or in BURSTWATCH_LEDGER"
        yield broken(f"{summary}: this user may not write to it, or to its directory", fix=fix)
    elif file.schema < SCHEMA_VERSION:
        yield ok(f"{summary}: brought up to schema {SCHEMA_VERSION} when it is next used")
    else:
        yield ok(summary)


def _check_origin(context: DoctorContext, path: Path) -> Iterator[Finding]:
    """Whether it is the ledger of this account and region; only if AWS returns the identity."""
    file_origin = inspect_ledger_file(path).origin
    try:
        own_origin = ledger_origin(context.account, context.region)
    except LookupFailedError:
        return
    if file_origin not in (None, own_origin):
        summary = f"sqlite:{path} is that of {file_origin}, and this is {own_origin}: nothing can be recorded"
        yield broken(summary, fix="give each account and region a file of its own, with --ledger sqlite:PATH")


def _can_create(path: Path) -> bool:
    existing_parent = next((parent for parent in path.parents if parent.exists()), Path("/"))
    return existing_parent.is_dir() and os.access(existing_parent, os.W_OK | os.X_OK)


def _check_table(context: DoctorContext, address: LedgerAddress) -> Finding:
    try:
        with translate_errors("dynamodb:DescribeTable"):
            table = context.client("dynamodb").describe_table(TableName=address.name)["Table"]
    except AwsError as error:
        if error.failure.kind is FailureKind.NOT_FOUND:
            return broken(
                f"there is no table {address.name} in {context.region}",
                fix="name the right one with --ledger dynamodb:TABLE, or deploy the stack that makes it",
            )
        return from_error(error)
    status = table.get("TableStatus")
    if status not in ("ACTIVE", "UPDATING"):
        return broken(f"{address} is {status}", fix="see the table in the console of DynamoDB")
    if table.get("DeletionProtectionEnabled") is False:
        command = context.aws_command(
            "dynamodb", "update-table", "--table-name", address.name, "--deletion-protection-enabled"
        )
        summary = (
            f"{address} is not protected against deletion: it is the only record of the original types of"
            " volumes"
        )
        return warning(summary, fix="protect it", commands=(command,))
    return ok(f"{address}, {status}")


def _check_stack_ledger(context: DoctorContext, address: LedgerAddress) -> Iterator[Finding]:
    """A separate local ledger next to a deployed stack: the stack does not see its holds."""
    try:
        stack = context.stack
    except LookupFailedError:
        return
    if stack is not None and stack.ledger != str(address):
        summary = f"stack {stack.name} is deployed and does not read {address}"
        fix = f"leave out --ledger and BURSTWATCH_LEDGER to use the stack's: {stack.ledger}"
        yield warning(summary, fix=fix)
