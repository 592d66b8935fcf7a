"""``burstctl aws-check``: measures in your own account what AWS does not document."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click

from burstctl.aws_check.cleanup import CleanupResult, clean_up, find_by_tag
from burstctl.aws_check.fact import Fact
from burstctl.aws_check.fact_context import FactContext, SharedHost
from burstctl.aws_check.facts import FACTS
from burstctl.aws_check.host import CLEANUP_MINUTES
from burstctl.aws_check.plan import Plan, choose_facts, render_list, render_plan
from burstctl.aws_check.plan import to_document as plan_document
from burstctl.aws_check.report import FinishedRun, summarise, to_document, to_markdown
from burstctl.aws_check.resources import is_run_id
from burstctl.aws_check.result import FactOutcome
from burstctl.aws_check.run_file import Resource, RunFile, open_directory, read_run, unfinished_runs
from burstctl.aws_check.runner import measure_all
from burstctl.cli.atomic_file import check_writable, exclusive_lock, write_atomically
from burstctl.cli.confirm import confirm, require_terminal_or_yes
from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import Command, Options, common_options
from burstctl.cli.output import print_error, print_info, print_next, print_output, to_json
from burstctl.cli.signals import StopSignal
from burstctl.cli.text_layout import lay_out, text_columns, wrap_hanging
from burstctl.context.stacks import open_aws_session
from burstctl.experiment.waiting import MAX_SLEEP_S, Interrupted, Waiter
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.core.errors import BurstwatchError, Problem
from burstwatch.core.text import format_clock, format_duration, format_usd
from burstwatch.wiring.bootstrap import (
    AwsSession,
    build_client,
    build_client_with_credentials,
    endpoint_clock,
    get_caller_identity,
)
from burstwatch.wiring.settings import CLOCK, Clock, Settings, SettingsError

if TYPE_CHECKING:
    from documents.aws_check import AwsCheckCleanUpDocument

SCHEMA: Final = "burstwatch.aws-check-clean-up/v1"
DEFAULT_CEILING_USD: Final = 1.0  # a run of all facts costs less in every Region
_MAX_CEILING_USD: Final = 10.0  # a mistyped ceiling must not allow more


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
    without=("policy", "ledger", "verbose"),
)
@click.option("--only", multiple=True, metavar="FACT", help="Try this fact only; may be given several times.")
@click.option(
    "--list", "only_list", is_flag=True, help="List the facts, and those not covered, without any call."
)
@click.option("--resume", is_flag=True, help="Resume the interrupted run; measured facts keep their answers.")
@click.option(
    "--clean-up", "only_clean_up", is_flag=True, help="Remove what runs have left in this Region, then exit."
)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="PREFIX",
    help="Write PREFIX.json and PREFIX.md. Default: aws-check-REGION-RUN here.",
)
@click.option("--with-account", is_flag=True, help="Keep the account and principals in the report.")
@click.option("--subnet", metavar="ID", help="The subnet of the instance. Default: one of the default VPC.")
@click.option(
    "--ceiling",
    "ceiling_usd",
    type=click.FloatRange(0, _MAX_CEILING_USD),
    default=DEFAULT_CEILING_USD,
    show_default=True,
    metavar="USD",
    help="Do not start if it could cost more.",
)
@click.option("--dry-run", is_flag=True, help="Show the plan; create nothing.")
@click.option("--yes", "assumes_yes", is_flag=True, help="Do not ask; required without a terminal.")
@common_options
def aws_check(
    options: Options,
    *,
    only: tuple[str, ...],
    only_list: bool,
    resume: bool,
    only_clean_up: bool,
    **values: Any,
) -> ExitCode:
    """Measure what AWS does not document, in your own account, for less than a dollar.

    It has never run on AWS. It creates an instance, volumes, roles, a key, a topic, queues, a rule and an
    alarm, each with the tag burstwatch:aws-check. It measures the facts in parallel and removes everything at
    the end. It never modifies or deletes anything else. It shows its price and asks first. The report can be
    shared, and burstlab serve --as REPORT.json behaves as measured.

    Exits 0 if each fact has an answer, 3 if an answer is missing. Exits 1 if something could not be removed,
    4 if it could cost more than the ceiling, 130 if you decline or interrupt it.
    """
    facts = choose_facts(FACTS, only)
    if only_list:
        plan = Plan(facts=facts)
        document = plan_document(plan, ceiling_usd=values["ceiling_usd"])
        print_output(to_json(document) if options.json else render_list(plan))
        _print_next(options, ["--dry-run"])
        return ExitCode.OK
    if (resume and (only or only_clean_up)) or (only_clean_up and only):
        raise click.UsageError(
            Problem("--only, --resume and --clean-up are mutually exclusive", "give one of them")
        )
    request = _CheckRequest(options=options, facts=facts, **values)
    if only_clean_up:
        return _clean_region(_CheckContext.open(request))
    if request.dry_run and not resume:
        return _show_plan(request, Plan(facts=facts, region=open_aws_session(options).region_name))
    return _resume_run(_CheckContext.open(request)) if resume else _start_run(_CheckContext.open(request))


@dataclass(frozen=True, slots=True, kw_only=True)
class _CheckRequest:
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
class _CheckContext:
    """AWS and the place of the run files."""

    request: _CheckRequest
    session: AwsSession
    calls: CallCounter
    clients: dict[str, Any]
    account: str
    partition: str
    directory: Path
    clock: Callable[[], float]
    max_nap_s: float

    @classmethod
    def open(cls, request: _CheckRequest) -> "_CheckContext":
        session, calls = open_aws_session(request.options), CallCounter()
        identity = get_caller_identity(session, calls)
        clients = {"ec2": build_client(session, "ec2", calls)}
        environment = {name: os.environ[name] for name in (CLOCK, "XDG_STATE_HOME") if name in os.environ}
        settings = Settings.from_env(environment, home=Path.home(), default_ledger_id="any")
        aws_clock = endpoint_clock(clients["ec2"].meta.endpoint_url)
        if settings.clock is Clock.WALL:
            aws_clock = _corrected_clock(aws_clock() - time.time())
        return cls(
            request=request,
            session=session,
            calls=calls,
            clients=clients,
            account=identity.account,
            partition=identity.arn.split(":")[1] if identity.arn.count(":") else "aws",
            directory=open_directory(settings.ledger.path.absolute().parent),
            clock=aws_clock,
            max_nap_s=MAX_SLEEP_S[settings.clock],
        )

    def client(self, service: str) -> Any:
        if service not in self.clients:
            self.clients[service] = build_client(self.session, service, self.calls)
        return self.clients[service]

    def client_as(self, service: str, credentials: Mapping[str, str]) -> Any:
        return build_client_with_credentials(self.session, service, self.calls, credentials)

    @property
    def region(self) -> str:
        return self.session.region_name

    @property
    def is_aws(self) -> bool:
        host = urlsplit(str(self.client("ec2").meta.endpoint_url)).hostname or ""
        return host.endswith((".amazonaws.com", ".amazonaws.com.cn"))

    def make_waiter(self, stop: StopSignal) -> Waiter:
        return Waiter(clock=self.clock, stop=stop, max_sleep_s=self.max_nap_s)

    def fact_context_factory(
        self, run_file: RunFile, shared_host: SharedHost
    ) -> Callable[[str], FactContext]:
        def make_context(owner: str) -> FactContext:
            return FactContext(
                run_file=run_file,
                client=self.client,
                client_as=self.client_as,
                clock=self.clock,
                shared_host=shared_host,
                owner=owner,
                partition=self.partition,
                log=self.log,
            )

        return make_context

    def log(self, text: str) -> None:
        print_info(lay_out(f"{format_clock(self.clock())} UTC: {text}"), is_preformatted=True)

    def path_of(self, run_id: str) -> Path:
        return self.directory / f"aws-check-{run_id}.json"

    def exclusive_lock(self) -> AbstractContextManager[None]:
        """Keep other processes of this machine from the runs of this Region."""
        return exclusive_lock(
            self.directory / f".aws-check-{self.region}.lock",
            Problem(
                f"another burstctl aws-check is running in {self.region}",
                "wait for it, or end it with Ctrl-C, which cleans up",
            ),
        )


def _corrected_clock(ahead_s: float) -> Callable[[], float]:
    """This machine's clock, put right by AWS's at the start: delays are measured against AWS's minutes."""
    return lambda: time.time() + ahead_s


def _print_next(options: Options, arguments: Sequence[str]) -> None:
    if not options.json:
        print_next([options.command("aws-check", *arguments)])


def _plan_options(request: _CheckRequest) -> list[str]:
    """The options with which a run does what a dry run has shown."""
    names = [fact.name for fact in request.facts] if len(request.facts) < len(FACTS) else []
    ceiling = f"{request.ceiling_usd:g}" if request.ceiling_usd != DEFAULT_CEILING_USD else None
    values = {"--report": request.report, "--subnet": request.subnet, "--ceiling": ceiling}
    return [
        *(word for name in names for word in ("--only", name)),
        *(word for name, value in values.items() if value for word in (name, str(value))),
        *(["--with-account"] if request.with_account else []),
    ]


def _show_plan(request: _CheckRequest, plan: Plan, *, is_resumed: bool = False) -> ExitCode:
    document = plan_document(plan, ceiling_usd=request.ceiling_usd)
    print_output(to_json(document) if request.options.json else render_plan(plan))
    if request.dry_run:
        _print_next(request.options, ["--resume"] if is_resumed else _plan_options(request))
    return ExitCode.OK if request.dry_run or request.options.exit_zero else ExitCode.REFUSED


def _start_run(context: _CheckContext) -> ExitCode:
    request = context.request
    require_terminal_or_yes(assumes_yes=request.assumes_yes)
    with context.exclusive_lock():
        if unfinished := unfinished_runs(context.directory, context.region):
            raise BurstwatchError(
                f"run {unfinished[0].run_id} was interrupted, and is not over",
                fix="go on with it: burstctl aws-check --resume; or remove what it has left: --clean-up",
            )
        now_s = context.clock()
        run_id = f"{time.strftime('%Y%m%dt%H%M%Sz', time.gmtime(now_s))}-{token_hex(2)}"
        run = RunFile(
            path=context.path_of(run_id),
            run_id=run_id,
            region=context.region,
            account=context.account,
            begun_s=now_s,
            facts=[fact.name for fact in request.facts],
            subnet=request.subnet,
        )
        return _run_facts(context, run, request.facts)


def _resume_run(context: _CheckContext) -> ExitCode:
    request = context.request
    with context.exclusive_lock():
        runs = unfinished_runs(context.directory, context.region)
        if not runs:
            print_info(f"no interrupted run in {context.region}: burstctl aws-check begins one")
            return ExitCode.OK
        run = runs[-1]
        _check_account(context, run)
        facts = choose_facts(FACTS, run.unanswered) if run.unanswered else []
        if request.dry_run:
            return _show_plan(request, Plan(facts=facts, region=context.region), is_resumed=True)
        require_terminal_or_yes(assumes_yes=request.assumes_yes)
        if run.remaining:
            context.log(f"removing what run {run.run_id} has left, then going on with it")
            result = _clean_run(context, run)
            if result.remaining:
                raise BurstwatchError(_describe_remaining(result))
        return _run_facts(context, run, facts)


def _run_facts(context: _CheckContext, run: RunFile, facts: Sequence[Fact]) -> ExitCode:
    request = context.request
    plan = Plan(facts=facts, region=context.region)
    prefix = request.report or Path(f"aws-check-{context.region}-{run.run_id}")
    paths = [prefix.with_name(f"{prefix.name}.{ending}") for ending in ("json", "md")]
    for path in paths:
        check_writable(path.absolute(), "--report")
    most_usd = run.most_usd + plan.usd
    if facts and most_usd > request.ceiling_usd:
        spent_note = f", {format_usd(run.most_usd)} of it before this attempt" if run.most_usd else ""
        next_step = (
            "give a higher --ceiling, or end the run with --clean-up"
            if spent_note
            else "take fewer facts with --only"
        )
        print_error(
            Problem(
                f"it could cost {format_usd(most_usd)}{spent_note}, the ceiling is"
                f" {format_usd(request.ceiling_usd)}",
                next_step,
            )
        )
        return _show_plan(request, plan)
    print_info(render_plan(plan), is_preformatted=True)
    question = (
        f"Create this in account {context.account}, {context.region}, for at most {format_usd(plan.usd)}?"
    )
    if facts and not confirm(question, assumes_yes=request.assumes_yes):
        return ExitCode.INTERRUPTED
    run.most_usd = most_usd
    run.save()
    early_exit = _measure_facts(context, run, plan)
    cleanup = _clean_run(context, run)
    if early_exit is not None:
        print_error(Problem(f"run {run.run_id} is not over", "go on with it: burstctl aws-check --resume"))
        if cleanup.remaining:
            print_error(_describe_remaining(cleanup))
        return early_exit
    return _write_report(context, run, cleanup, paths)


def _measure_facts(context: _CheckContext, run: RunFile, plan: Plan) -> ExitCode | None:
    """Measure the facts of a plan; the exit code if this ended before the last of them."""
    make_context = context.fact_context_factory(run, SharedHost(minutes=plan.host_minutes))
    with StopSignal() as stop:
        try:
            measure_all(run, plan.facts, make_context, context.make_waiter(stop), context.log)
        except Interrupted:
            context.log("interrupted: removing what was created; a second Ctrl-C leaves that to --clean-up")
            return ExitCode.INTERRUPTED
        except BurstwatchError as error:
            print_error(error.problem)
            return ExitCode.FAILED
    return None


def _write_report(
    context: _CheckContext, run: RunFile, cleanup: CleanupResult, paths: Sequence[Path]
) -> ExitCode:
    request = context.request
    facts = choose_facts(FACTS, run.facts)
    finished = FinishedRun(
        run=run,
        facts=facts,
        ended_at_s=context.clock(),
        most_usd=run.most_usd,
        is_aws=context.is_aws,
        leftovers=[(kind, key, reason) for (kind, key), reason in cleanup.remaining.items()],
    )
    document = to_document(finished, with_account=request.with_account)
    for path, text in zip(paths, (to_json(document), to_markdown(document)), strict=True):
        write_atomically(path.absolute(), f"{text}\n".encode())
    if not cleanup.remaining:
        run.is_over = True
        run.save()
    if request.options.json:
        print_output(to_json(document))
    else:
        print_output(lay_out(*summarise(run, facts)))
    print_info(f"the report, safe to share: {paths[0]} and {paths[1]}")
    if cleanup.remaining:
        print_error(_describe_remaining(cleanup))
        return ExitCode.FAILED
    is_complete = all(item.outcome is FactOutcome.MEASURED for item in run.results.values())
    return ExitCode.OK if is_complete or request.options.exit_zero else ExitCode.ATTENTION


def _clean_run(context: _CheckContext, run: RunFile) -> CleanupResult:
    """Remove what a run created.

    It has its own signal handler, because the first Ctrl-C started the clean-up.
    """
    with StopSignal() as stop:
        try:
            return clean_up(
                run, context.client, context.clock, context.make_waiter(stop), CLEANUP_MINUTES * 60
            )
        except Interrupted:
            remaining = {
                (resource.kind, resource.id or "unknown"): "interrupted" for resource in run.remaining
            }
            return CleanupResult(remaining=remaining)


def _clean_region(context: _CheckContext) -> ExitCode:
    """Remove what any run left behind: resources in the local files, and resources that carry the tag."""
    with context.exclusive_lock():
        runs = {run.run_id: run for run in unfinished_runs(context.directory, context.region)}
        for run in runs.values():
            _check_account(context, run)
        failures = _add_tagged_resources(context, runs)
        for failure in failures:
            print_error(failure)
        _print_runs(context, runs)
        if not runs:
            return _print_cleanup(context, {}, has_failed=bool(failures))
        if context.request.dry_run:
            return ExitCode.OK
        require_terminal_or_yes(assumes_yes=context.request.assumes_yes)
        if not confirm("Remove them?", assumes_yes=context.request.assumes_yes):
            return ExitCode.INTERRUPTED
        results = {}
        for run in runs.values():
            results[run.run_id] = _clean_run(context, run)
            if not results[run.run_id].remaining:
                run.is_over = True
                run.save()
        return _print_cleanup(context, results, has_failed=bool(failures))


def _add_tagged_resources(context: _CheckContext, runs: dict[str, RunFile]) -> list[Problem]:
    """Add the resources that AWS lists with our tag to the runs; return what could not be listed."""
    failures = []
    for kind, resource_id, run_id in find_by_tag(context.client):
        if run_id is None:
            failures.append(Problem(f"{kind}s could not be listed: {resource_id}", "run it again"))
            continue
        if not is_run_id(run_id):
            cause = f"{kind} {resource_id} carries the tag of no run of burstctl aws-check, so it stays"
            failures.append(Problem(cause, "remove it by hand if no one needs it"))
            continue
        if run_id not in runs:
            runs[run_id] = _run_of_tag(context, run_id)
        run = runs[run_id]
        if run.region != context.region or run.account != context.account:
            # AWS lists nothing of it here, which would otherwise count as removed
            cause = f"{kind} {resource_id}: run {run_id} is of {run.region}, account {run.account}"
            failures.append(Problem(cause, "clean up there"))
            del runs[run_id]
            continue
        if not any(resource.kind == kind and resource.id == resource_id for resource in run.remaining):
            run.resources.append(
                Resource(kind=kind, owner="found by tag", intended_s=run.begun_s, id=resource_id)
            )
    return failures


def _run_of_tag(context: _CheckContext, run_id: str) -> RunFile:
    path = context.path_of(run_id)
    if path.exists():
        return read_run(path)
    return RunFile(
        path=path,
        run_id=run_id,
        region=context.region,
        account=context.account,
        begun_s=context.clock(),
        facts=[],
    )


def _print_runs(context: _CheckContext, runs: Mapping[str, RunFile]) -> None:
    if not runs:
        print_info(f"nothing with the tag of burstctl aws-check is in {context.region}")
    for run in runs.values():
        age = format_duration(max(0.0, context.clock() - run.begun_s))
        contents = (
            ", ".join(f"{resource.kind} {resource.id or '(id unknown)'}" for resource in run.remaining)
            or "nothing"
        )
        print_info(
            "\n".join(wrap_hanging(f"run {run.run_id}, known here for {age}: {contents}", text_columns())),
            is_preformatted=True,
        )


def _print_cleanup(
    context: _CheckContext, results: Mapping[str, CleanupResult], *, has_failed: bool
) -> ExitCode:
    if context.request.options.json:
        document: AwsCheckCleanUpDocument = {
            "schema": SCHEMA,
            "region": context.region,
            "runs": [
                {
                    "run_id": run_id,
                    "removed": [{"kind": kind, "id": key} for kind, key in result.removed],
                    "left": [
                        {"kind": kind, "id": key, "reason": reason}
                        for (kind, key), reason in result.remaining.items()
                    ],
                }
                for run_id, result in results.items()
            ],
        }
        print_output(to_json(document))
    for run_id, result in results.items():
        print_info(
            f"run {run_id}: {len(result.removed)} removed"
            + (f"; {_describe_remaining(result)}" if result.remaining else "")
        )
    return (
        ExitCode.FAILED if has_failed or any(result.remaining for result in results.values()) else ExitCode.OK
    )


def _check_account(context: _CheckContext, run: RunFile) -> None:
    """Refuse to touch a run of another account.

    Raises:
        SettingsError: these credentials are of another one.
    """
    if run.account != context.account:
        raise SettingsError(
            f"run {run.run_id} is of account {run.account}, these credentials are of {context.account}",
            fix="give --profile",
        )


def _describe_remaining(result: CleanupResult) -> Problem:
    items = "; ".join(f"{kind} {key}: {reason}" for (kind, key), reason in result.remaining.items())
    return Problem(f"not removed: {items}", "try again with burstctl aws-check --clean-up")
