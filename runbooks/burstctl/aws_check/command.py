"""``burstctl aws-check``: what AWS does not document, measured in an account of one's own."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, Final
from urllib.parse import urlsplit

import click

from burstctl.aws_check.bench import Bench, HostSlot
from burstctl.aws_check.cleaning import Cleaned, clean_up, found_by_tag
from burstctl.aws_check.fact import Fact
from burstctl.aws_check.facts import FACTS
from burstctl.aws_check.host import CLEAN_UP_MINUTES
from burstctl.aws_check.plan import Plan, choose, in_words, list_in_words
from burstctl.aws_check.plan import to_document as plan_document
from burstctl.aws_check.report import Finished, summary, to_document, to_markdown
from burstctl.aws_check.resources import is_run_id
from burstctl.aws_check.result import Outcome
from burstctl.aws_check.run_file import Resource, RunFile, open_directory, read_run, unfinished_runs
from burstctl.aws_check.runner import measure_all
from burstctl.cli.atomic_file import check_writable, write_whole
from burstctl.cli.confirm import is_confirmed, require_somebody_to_ask
from burstctl.cli.exit_codes import Exit
from burstctl.cli.options import Command, Options, common_options
from burstctl.cli.output import complain, say, show, to_json
from burstctl.cli.signals import StopSignal
from burstctl.cli.text_layout import COLUMNS, hang
from burstctl.context.stacks import session_of
from burstctl.experiment.waiting import LONGEST_NAP_S, Patience, Stopped
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.text import format_clock, format_duration
from burstwatch.wiring.bootstrap import AwsSession, build_client, client_as, endpoint_clock, find_identity
from burstwatch.wiring.settings import CLOCK, Clock, Settings, SettingsError

SCHEMA: Final = "burstwatch.aws-check-clean-up/v1"
CEILING_USD: Final = 1.0
_MOST_CEILING_USD: Final = 10.0


@click.command(
    cls=Command,
    examples=(
        ("burstctl aws-check --dry-run", "what it would create, for how much and how long"),
        ("burstctl aws-check --only ratio-refusal --only zone-filter", "two facts, which take minutes"),
        ("burstctl aws-check --report shared/aws-check", "all; writes shared/aws-check.json and .md"),
        ("burstctl aws-check --resume", "go on after Ctrl-C or a crash"),
        ("burstctl aws-check --clean-up", "remove what an interrupted run has left"),
    ),
    page="runbooks/README.md",
)
@click.option("--only", multiple=True, metavar="FACT", help="Try this fact only; may be given several times.")
@click.option("--list", "lists", is_flag=True, help="List the facts, and what is not tried; calls nothing.")
@click.option("--resume", is_flag=True, help="Go on with the interrupted run: facts with an answer keep it.")
@click.option(
    "--clean-up", "cleans", is_flag=True, help="Remove what runs have left in this Region, and end."
)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="PREFIX",
    help="Write PREFIX.json and PREFIX.md. Default: aws-check-REGION-RUN here.",
)
@click.option("--with-account", is_flag=True, help="Leave the account and principals in the report.")
@click.option("--subnet", metavar="ID", help="Where the instance goes. Default: the default VPC's.")
@click.option(
    "--ceiling",
    "ceiling_usd",
    type=click.FloatRange(0, _MOST_CEILING_USD),
    default=CEILING_USD,
    show_default=True,
    metavar="USD",
    help="Do not begin if it could cost more.",
)
@click.option("--dry-run", is_flag=True, help="Show the plan; create nothing.")
@click.option("--yes", is_flag=True, help="Do not ask; needed where there is no terminal.")
@common_options
def aws_check(
    options: Options,
    *,
    only: tuple[str, ...],
    lists: bool,
    resume: bool,
    cleans: bool,
    report: Path | None,
    with_account: bool,
    subnet: str | None,
    ceiling_usd: float,
    dry_run: bool,
    yes: bool,
) -> Exit:
    """Measure what AWS does not document, in your own account, for less than a dollar.

    It has never run on AWS. It creates an instance, volumes, roles, a key, a topic, queues, a rule and an
    alarm, each with the tag burstwatch:aws-check, tries the facts at the same time, and removes everything at
    the end. It never modifies or deletes anything else. It states its price and asks; the report can be
    shared, and burstlab serve --as REPORT.json behaves as measured.

    Exits 0 if each fact has an answer, 3 if one has none, 1 if something could not be removed, 4 if it could
    cost more than the ceiling, 130 if the answer is no or it was interrupted.
    """
    facts = choose(FACTS, only)
    if lists:
        plan = Plan(facts=facts)
        show(to_json(plan_document(plan, ceiling_usd=ceiling_usd)) if options.json else list_in_words(plan))
        return Exit.FINE
    if (resume and (only or cleans)) or (cleans and only):
        raise click.UsageError("--only, --resume and --clean-up exclude each other: give one")
    asked = _Asked(
        options=options,
        facts=facts,
        report=report,
        with_account=with_account,
        subnet=subnet,
        ceiling_usd=ceiling_usd,
        dry_run=dry_run,
        assumes_yes=yes,
    )
    if cleans:
        return _clean(_Desk.open(asked))
    if dry_run and not resume:
        return _show_plan(asked, Plan(facts=facts, region=session_of(options).region_name))
    return _resume(_Desk.open(asked)) if resume else _begin(_Desk.open(asked))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The options."""

    options: Options
    facts: Sequence[Fact]
    report: Path | None
    with_account: bool
    subnet: str | None
    ceiling_usd: float
    dry_run: bool
    assumes_yes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Desk:
    """AWS and the place of the run files."""

    asked: _Asked
    session: AwsSession
    calls: CallCounter
    clients: dict[str, Any]
    account: str
    partition: str
    directory: Path
    clock: Callable[[], float]
    nap_s: float

    @classmethod
    def open(cls, asked: _Asked) -> "_Desk":
        session, calls = session_of(asked.options), CallCounter()
        identity = find_identity(session, calls)
        clients = {"ec2": build_client(session, "ec2", calls)}
        named = {name: os.environ[name] for name in (CLOCK, "XDG_STATE_HOME") if name in os.environ}
        settings = Settings.from_env(named, home=Path.home(), place="any")
        aws_clock = endpoint_clock(clients["ec2"].meta.endpoint_url)
        if settings.clock is Clock.WALL:
            aws_clock = _corrected(aws_clock() - time.time())
        return cls(
            asked=asked,
            session=session,
            calls=calls,
            clients=clients,
            account=identity.account,
            partition=identity.arn.split(":")[1] if identity.arn.count(":") else "aws",
            directory=open_directory(settings.ledger.path.absolute().parent),
            clock=aws_clock,
            nap_s=LONGEST_NAP_S[settings.clock],
        )

    def client(self, service: str) -> Any:
        if service not in self.clients:
            self.clients[service] = build_client(self.session, service, self.calls)
        return self.clients[service]

    def client_as(self, service: str, credentials: Mapping[str, str]) -> Any:
        return client_as(self.session, service, self.calls, credentials)

    @property
    def region(self) -> str:
        return self.session.region_name

    @property
    def is_aws(self) -> bool:
        host = urlsplit(str(self.client("ec2").meta.endpoint_url)).hostname or ""
        return host.endswith((".amazonaws.com", ".amazonaws.com.cn"))

    def patience(self, stop: StopSignal) -> Patience:
        return Patience(clock=self.clock, stop=stop, longest_s=self.nap_s)

    def bench_of(self, run: RunFile, slot: HostSlot) -> Callable[[str], Bench]:
        def bench(owner: str) -> Bench:
            return Bench(
                run=run,
                client=self.client,
                client_as=self.client_as,
                clock=self.clock,
                slot=slot,
                owner=owner,
                partition=self.partition,
                note=self.report,
            )

        return bench

    def report(self, text: str) -> None:
        say("\n".join(hang(f"{format_clock(self.clock())} UTC: {text}", COLUMNS)), as_it_is=True)

    def path_of(self, run_id: str) -> Path:
        return self.directory / f"aws-check-{run_id}.json"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes of this machine from the runs of this Region.

        Raises:
            BurstwatchError: another one is at it.
        """
        with (self.directory / f".aws-check-{self.region}.lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise BurstwatchError(
                    f"another burstctl aws-check is running in {self.region}: wait for it, or end it with"
                    " Ctrl-C, which cleans up"
                ) from error
            yield


def _corrected(ahead_s: float) -> Callable[[], float]:
    """This machine's clock, put right by AWS's at the start: delays are measured against AWS's minutes."""
    return lambda: time.time() + ahead_s


def _show_plan(asked: _Asked, plan: Plan) -> Exit:
    document = plan_document(plan, ceiling_usd=asked.ceiling_usd)
    show(to_json(document) if asked.options.json else in_words(plan))
    return Exit.FINE if asked.dry_run or asked.options.exit_zero else Exit.REFUSED


def _begin(desk: _Desk) -> Exit:
    asked = desk.asked
    require_somebody_to_ask(assumes_yes=asked.assumes_yes)
    with desk.alone():
        if before := unfinished_runs(desk.directory, desk.region):
            raise BurstwatchError(
                f"run {before[0].run_id} was interrupted: burstctl aws-check --resume goes on with it,"
                " --clean-up removes what it has left and ends it"
            )
        now_s = desk.clock()
        run_id = f"{time.strftime('%Y%m%dt%H%M%Sz', time.gmtime(now_s))}-{token_hex(2)}"
        run = RunFile(
            path=desk.path_of(run_id),
            run_id=run_id,
            region=desk.region,
            account=desk.account,
            begun_s=now_s,
            facts=[fact.name for fact in asked.facts],
            subnet=asked.subnet,
        )
        return _carry_out(desk, run, asked.facts)


def _resume(desk: _Desk) -> Exit:
    asked = desk.asked
    with desk.alone():
        runs = unfinished_runs(desk.directory, desk.region)
        if not runs:
            say(f"no interrupted run in {desk.region}: burstctl aws-check begins one")
            return Exit.FINE
        run = runs[-1]
        _check_account(desk, run)
        facts = choose(FACTS, run.unanswered) if run.unanswered else []
        if asked.dry_run:
            return _show_plan(asked, Plan(facts=facts, region=desk.region))
        require_somebody_to_ask(assumes_yes=asked.assumes_yes)
        if run.left:
            desk.report(f"removing what run {run.run_id} has left, then going on with it")
            cleaned = _clean_run(desk, run)
            if cleaned.left:
                raise BurstwatchError(f"{_left_in_words(cleaned)}: run it again")
        return _carry_out(desk, run, facts)


def _carry_out(desk: _Desk, run: RunFile, facts: Sequence[Fact]) -> Exit:
    asked = desk.asked
    plan = Plan(facts=facts, region=desk.region)
    prefix = asked.report or Path(f"aws-check-{desk.region}-{run.run_id}")
    paths = [prefix.with_name(f"{prefix.name}.{ending}") for ending in ("json", "md")]
    for path in paths:
        check_writable(path.absolute(), "--report")
    most_usd = run.most_usd + plan.usd
    if facts and most_usd > asked.ceiling_usd:
        before = f", ${run.most_usd:.2f} of it before this attempt" if run.most_usd else ""
        next_step = "give a higher --ceiling, or --clean-up ends the run" if before else "take fewer facts"
        complain(
            f"it could cost ${most_usd:.2f}{before}, the ceiling is ${asked.ceiling_usd:.2f}: {next_step}"
        )
        return _show_plan(asked, plan)
    say(in_words(plan), as_it_is=True)
    question = f"Create this in account {desk.account}, {desk.region}, for at most ${plan.usd:.2f}?"
    if facts and not is_confirmed(question, assumes_yes=asked.assumes_yes):
        return Exit.INTERRUPTED
    run.most_usd = most_usd
    run.save()
    slot = HostSlot(minutes=plan.host_minutes)
    ended_by: Exit | None = None
    with StopSignal() as stop:
        try:
            measure_all(run, facts, desk.bench_of(run, slot), desk.patience(stop), desk.report)
        except Stopped:
            ended_by = Exit.INTERRUPTED
            desk.report("interrupted: removing what was created; a second Ctrl-C leaves that to --clean-up")
        except BurstwatchError as error:
            complain(str(error))
            ended_by = Exit.FAILED
    cleaned = _clean_run(desk, run)
    if ended_by is not None:
        complain(f"run {run.run_id} is not over: burstctl aws-check --resume goes on with it")
        if cleaned.left:
            complain(_left_in_words(cleaned))
        return ended_by
    return _report(desk, run, cleaned, paths)


def _report(desk: _Desk, run: RunFile, cleaned: Cleaned, paths: Sequence[Path]) -> Exit:
    asked = desk.asked
    facts = choose(FACTS, run.facts)
    finished = Finished(
        run=run,
        facts=facts,
        ended_s=desk.clock(),
        most_usd=run.most_usd,
        is_aws=desk.is_aws,
        left=[(kind, key, reason) for (kind, key), reason in cleaned.left.items()],
    )
    document = to_document(finished, with_account=asked.with_account)
    for path, text in zip(paths, (to_json(document), to_markdown(document)), strict=True):
        write_whole(path.absolute(), f"{text}\n".encode())
    if not cleaned.left:
        run.is_over = True
        run.save()
    if asked.options.json:
        show(to_json(document))
    else:
        show("\n".join(line for each in summary(run, facts) for line in hang(each, COLUMNS)))
    say(f"the report, fit to be shared: {paths[0]} and {paths[1]}")
    if cleaned.left:
        complain(_left_in_words(cleaned))
        return Exit.FAILED
    has_all = all(each.outcome is Outcome.MEASURED for each in run.results.values())
    return Exit.FINE if has_all or asked.options.exit_zero else Exit.ATTENTION


def _clean_run(desk: _Desk, run: RunFile) -> Cleaned:
    """Remove what a run created, with a signal of its own: the first one has begun this."""
    with StopSignal() as stop:
        try:
            return clean_up(run, desk.client, desk.clock, desk.patience(stop), CLEAN_UP_MINUTES * 60)
        except Stopped:
            left = {(each.kind, each.id or "unknown"): "interrupted" for each in run.left}
            return Cleaned(left=left)


def _clean(desk: _Desk) -> Exit:
    """Remove what any run has left: what the files here know, and what carries the tag."""
    with desk.alone():
        runs = {run.run_id: run for run in unfinished_runs(desk.directory, desk.region)}
        for run in runs.values():
            _check_account(desk, run)
        failures = _add_found(desk, runs)
        for failure in failures:
            complain(failure)
        _say_found(desk, runs)
        if not runs:
            return _show_cleaned(desk, {}, has_failed=bool(failures))
        if desk.asked.dry_run:
            return Exit.FINE
        require_somebody_to_ask(assumes_yes=desk.asked.assumes_yes)
        if not is_confirmed("Remove them?", assumes_yes=desk.asked.assumes_yes):
            return Exit.INTERRUPTED
        cleaned = {}
        for run in runs.values():
            cleaned[run.run_id] = _clean_run(desk, run)
            if not cleaned[run.run_id].left:
                run.is_over = True
                run.save()
        return _show_cleaned(desk, cleaned, has_failed=bool(failures))


def _add_found(desk: _Desk, runs: dict[str, RunFile]) -> list[str]:
    """Add what AWS shows with our tag to the runs; answers what could not be listed."""
    failures = []
    for kind, found, run_id in found_by_tag(desk.client):
        if run_id is None:
            failures.append(f"{kind}s could not be listed: {found}")
            continue
        if not is_run_id(run_id):
            failures.append(f"{kind} {found} carries the tag of no run of burstctl aws-check: not touched")
            continue
        if run_id not in runs:
            runs[run_id] = _run_found(desk, run_id)
        known = runs[run_id]
        if known.region != desk.region or known.account != desk.account:
            # AWS shows nothing of it here, and that would be taken for its end
            failures.append(f"{kind} {found}: run {run_id} is of {known.region}: clean up there")
            del runs[run_id]
            continue
        if not any(each.kind == kind and each.id == found for each in known.left):
            known.resources.append(
                Resource(kind=kind, owner="found by tag", intended_s=known.begun_s, id=found)
            )
    return failures


def _run_found(desk: _Desk, run_id: str) -> RunFile:
    path = desk.path_of(run_id)
    if path.exists():
        return read_run(path)
    return RunFile(
        path=path,
        run_id=run_id,
        region=desk.region,
        account=desk.account,
        begun_s=desk.clock(),
        facts=[],
    )


def _say_found(desk: _Desk, runs: Mapping[str, RunFile]) -> None:
    if not runs:
        say(f"nothing with the tag of burstctl aws-check is in {desk.region}")
    for run in runs.values():
        age = format_duration(max(0.0, desk.clock() - run.begun_s))
        what = ", ".join(f"{each.kind} {each.id or '(id unknown)'}" for each in run.left) or "nothing"
        say("\n".join(hang(f"run {run.run_id}, known here for {age}: {what}", COLUMNS)), as_it_is=True)


def _show_cleaned(desk: _Desk, cleaned: Mapping[str, Cleaned], *, has_failed: bool) -> Exit:
    if desk.asked.options.json:
        document = {
            "schema": SCHEMA,
            "region": desk.region,
            "runs": [
                {
                    "run_id": run_id,
                    "removed": [{"kind": kind, "id": key} for kind, key in each.removed],
                    "left": [
                        {"kind": kind, "id": key, "reason": reason}
                        for (kind, key), reason in each.left.items()
                    ],
                }
                for run_id, each in cleaned.items()
            ],
        }
        show(to_json(document))
    for run_id, each in cleaned.items():
        say(f"run {run_id}: {len(each.removed)} removed" + (f"; {_left_in_words(each)}" if each.left else ""))
    return Exit.FAILED if has_failed or any(each.left for each in cleaned.values()) else Exit.FINE


def _check_account(desk: _Desk, run: RunFile) -> None:
    """Refuse to touch a run of another account.

    Raises:
        SettingsError: these credentials are of another one.
    """
    if run.account != desk.account:
        raise SettingsError(
            f"run {run.run_id} is of account {run.account}, these credentials are of {desk.account}: give"
            " --profile"
        )


def _left_in_words(cleaned: Cleaned) -> str:
    what = "; ".join(f"{kind} {key}: {reason}" for (kind, key), reason in cleaned.left.items())
    return f"not removed: {what}; burstctl aws-check --clean-up tries again"
