"""The ledger: where everything is remembered, whether it can be written to, and who holds what."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from burstctl.doctor.context import Patient
from burstctl.doctor.finding import Finding, UnknownError, broken, of_error, ok, skipped, warning
from burstctl.doctor.sqlite_inspect import LedgerFile, look_into
from burstctl.render.pass_summary import hold_words
from burstwatch.adapters.aws.errors import AwsError, FailureKind, explained
from burstwatch.adapters.ledger.sqlite_schema import SCHEMA_VERSION, start_anew
from burstwatch.wiring.bootstrap import origin_of
from burstwatch.wiring.settings import LedgerAddress, LedgerKind

_MIB: Final = 2**20
_PAGE: Final = "docs/deploying.md"
_MOST_HOLDS: Final = 5


def check_ledger(patient: Patient) -> Iterator[Finding]:
    """Where it is, and whether it can be used."""
    address = patient.settings().ledger
    if address.kind is LedgerKind.SQLITE:
        yield from _check_file(patient, address)
    else:
        yield _check_table(patient, address)
    yield from _check_whose(patient, address)


def check_holds(patient: Patient) -> Iterator[Finding]:
    """What people froze; everything frozen is the kill switch, and nothing is flipped."""
    now_s = patient.now_s()
    holds = patient.ledger().holds(now_s)
    for hold in holds[:_MOST_HOLDS]:
        words = hold_words(hold, now_s)
        if hold.volume_id is None:
            fix = "if that is over, release it; until then nothing is flipped and nothing brought back"
            yield warning(words, fix=fix, commands=(patient.burstctl("release", hold.subject or "--all"),))
        else:
            yield ok(words)
    if len(holds) > _MOST_HOLDS:
        yield ok(f"and {len(holds) - _MOST_HOLDS:,} more, see {patient.burstctl('assess')}")
    if not holds:
        yield ok("nothing is held")


def _check_file(patient: Patient, address: LedgerAddress) -> Iterator[Finding]:
    path = address.path
    if not path.exists():
        yield judge_missing_file(path, may_be_made=_may_make(path))
        return
    yield from judge_file(path, look_into(path))
    yield from _check_origin(patient, path)


def judge_missing_file(path: Path, *, may_be_made: bool) -> Finding:
    """A ledger that is not there is made by who first needs one, if that is allowed."""
    if may_be_made:
        return skipped(f"sqlite:{path} is not there yet: the first watch, hold or flip makes it")
    seen = f"sqlite:{path} is not there, and cannot be made: its directory may not be written to"
    fix = "name another file with --ledger sqlite:PATH or in BURSTWATCH_LEDGER, or change who owns it"
    return broken(seen, fix=fix)


def judge_file(path: Path, file: LedgerFile) -> Iterator[Finding]:
    """A file that is whole, of a schema that is known, and can be written to."""
    seen = f"sqlite:{path}, schema {file.schema}, {file.size_bytes / _MIB:,.1f} MiB"
    if file.faults:
        yield broken(f"sqlite:{path} is damaged: {'; '.join(file.faults)}", fix=start_anew(path))
    elif file.schema > SCHEMA_VERSION:
        seen = f"{seen}: made by a newer burstwatch, this one knows schemas up to {SCHEMA_VERSION}"
        yield broken(seen, fix="update burstwatch, or name another file with --ledger sqlite:PATH")
    elif not file.is_writable:
        fix = "change who owns it, or name another file with --ledger sqlite:PATH or in BURSTWATCH_LEDGER"
        yield broken(f"{seen}: this user may not write to it, or to its directory", fix=fix)
    elif file.schema < SCHEMA_VERSION:
        yield ok(f"{seen}: brought up to schema {SCHEMA_VERSION} when it is next used")
    else:
        yield ok(seen)


def _check_origin(patient: Patient, path: Path) -> Iterator[Finding]:
    """Whether it is the ledger of this account and region; only where AWS says which that is."""
    bound = look_into(path).origin
    try:
        here = origin_of(patient.account, patient.region)
    except UnknownError:
        return
    if bound not in (None, here):
        seen = f"sqlite:{path} is that of {bound}, and this is {here}: nothing can be recorded"
        yield broken(seen, fix="give each account and region a file of its own, with --ledger sqlite:PATH")


def _may_make(path: Path) -> bool:
    there = next((each for each in path.parents if each.exists()), Path("/"))
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def _check_table(patient: Patient, address: LedgerAddress) -> Finding:
    try:
        with explained("dynamodb:DescribeTable"):
            table = patient.client("dynamodb").describe_table(TableName=address.place)["Table"]
    except AwsError as error:
        if error.failure.kind is FailureKind.NOT_FOUND:
            return broken(
                f"there is no table {address.place} in {patient.region}",
                fix="name the right one with --ledger dynamodb:TABLE, or deploy the stack that makes it",
                page=_PAGE,
            )
        return of_error(error)
    status = table.get("TableStatus")
    if status not in ("ACTIVE", "UPDATING"):
        return broken(f"{address} is {status}", fix="see the table in the console of DynamoDB")
    if table.get("DeletionProtectionEnabled") is False:
        command = patient.aws(
            "dynamodb", "update-table", "--table-name", address.place, "--deletion-protection-enabled"
        )
        seen = f"{address} is not protected against deletion: it is the only record of what volumes were"
        return warning(seen, fix="protect it", commands=(command,), page=_PAGE)
    return ok(f"{address}, {status}")


def _check_whose(patient: Patient, address: LedgerAddress) -> Iterator[Finding]:
    """A desk with a ledger of its own beside a deployed stack is not heard there."""
    try:
        stack = patient.stack
    except UnknownError:
        return
    if stack is not None and stack.ledger != str(address):
        seen = f"stack {stack.name} is deployed and does not hear of what is in {address}"
        fix = f"leave out --ledger and BURSTWATCH_LEDGER, and the stack's counts: {stack.ledger}"
        yield warning(seen, fix=fix)
