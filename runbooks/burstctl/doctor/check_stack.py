"""The deployed stack: is it there, does its schedule run, do its functions, did anything get stuck."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from burstctl.doctor.context import Patient
from burstctl.doctor.finding import Finding, UnknownError, broken, of_error, ok, skipped, warning
from burstwatch.adapters.aws.botocore_hooks import pages
from burstwatch.adapters.aws.errors import AwsError, FailureKind, explained
from burstwatch.adapters.policy.deployments import DeploymentError

NO_STACK: Final = "no stack is deployed in this account and region"
_DOCS: Final = "docs/deploying.md"
_SILENT: Final = "runbooks/WatchdogSilent.md"
_SCHEDULES: Final = 2

_QUEUES: Final = (
    ("FailedEventsQueue", "ticks and events given up", "TicksDeadLettered"),
    ("UndeliveredQueue", "alerts that did not reach somebody", "AlertsDeadLettered"),
    ("DeadFlipsQueue", "flips that could not be dealt with", "FlipRequestsDeadLettered"),
)
"""Outputs of the stack, what is in those queues, and the page about it."""

_ALARM: Final = re.compile(r"([A-Z]\w+)(?:-[a-z]+)?")
_WORKING: Final = frozenset({"Active", "Inactive", "Pending"})
_TAKING: Final = frozenset({"Enabled", "Enabling", "Creating", "Updating"})
_STATE_TO_KEEP: Final = (
    "{Name:Name,GroupName:GroupName,ScheduleExpression:ScheduleExpression,"
    "FlexibleTimeWindow:FlexibleTimeWindow,Target:Target,Description:Description}"
)


def check_stack(patient: Patient) -> Iterator[Finding]:
    """Which stacks there are, which one stands, and how its last deploy ended."""
    stacks = patient.stacks()
    if not stacks.found:
        yield skipped(NO_STACK, fix=f"cdk deploy makes one; a watch from a shell needs none ({_DOCS})")
        return
    for each in stacks.found:
        if isinstance(each, DeploymentError):
            yield broken(str(each), fix="do what the message says", page=_DOCS)
    stack = stacks.standing
    if stack is None:
        return
    others = [other.name for other in stacks.readable if other != stack]
    if others:
        yield warning(
            f"{stack.name} was deployed first and may flip; only proposing: {', '.join(others)}",
            fix="destroy one of them: two watchdogs work from two memories",
            page="runbooks/AnotherDeployment.md",
        )
    may = "flips what opted in" if stack.flips else "only proposes: it was deployed without flips"
    try:
        status = patient.outputs()["StackStatus"]
    except UnknownError as error:
        yield ok(f"{stack.name}, {may}")
        yield judge_unseen(error.error, stack.name)
        return
    yield judge_status(stack.name, status, may)


def judge_unseen(error: Exception, name: str) -> Finding:
    """CloudFormation does not know a stack that says it is there, or does not say."""
    unknown = isinstance(error, AwsError) and error.failure.code == "ValidationError"
    if unknown:
        return warning(
            f"Parameter Store has a stack {name}, and CloudFormation has none of that name",
            fix="if it was removed by hand, delete its parameters below /burstwatch/deployments",
            page=_DOCS,
        )
    return of_error(error)


def judge_status(name: str, status: str, may: str) -> Finding:
    """How the last deploy ended."""
    seen = f"{name}, {may}, {status}"
    if status.endswith("_FAILED") or status == "ROLLBACK_COMPLETE" or status.startswith("DELETE"):
        return broken(seen, fix="look at its events in the console of CloudFormation, then deploy again")
    if status.endswith("_IN_PROGRESS"):
        return warning(seen, fix="wait until it is done, then run this again")
    if "ROLLBACK" in status:
        return warning(f"{seen}: the last update was taken back", fix="deploy again (cdk deploy)", page=_DOCS)
    return ok(seen)


def check_schedule(patient: Patient) -> Iterator[Finding]:
    """Both schedules, by the function that they start."""
    name, watch = _stack_name(patient), patient.outputs()["WatchFunction"]
    client = patient.client("scheduler")
    with explained("scheduler:ListSchedules"):
        told = [
            one
            for page in pages(client.list_schedules, of="Schedules", NamePrefix=f"{name}-")
            for one in page["Schedules"]
        ]
    own = [one for one in told if one.get("Target", {}).get("Arn", "").endswith(f":function:{watch}")]
    for one in own:
        yield judge_schedule(patient, one)
    if len(own) < _SCHEDULES:
        seen = f"{len(own)} of {_SCHEDULES} schedules start the watch function"
        fix = "if the stage does not say schedule: false on purpose, deploy again"
        yield warning(seen, fix=fix, commands=("cdk deploy",), page=_SILENT)


def judge_schedule(patient: Patient, schedule: Mapping[str, Any]) -> Finding:
    """Enabled is well; anything else is put right by writing it again as it is."""
    name, state = str(schedule["Name"]), str(schedule.get("State", "UNKNOWN"))
    if state == "ENABLED":
        return ok("enabled", about=name)
    read = patient.aws("scheduler", "get-schedule", "--name", name, "--query", _STATE_TO_KEEP)
    write = patient.aws(
        "scheduler", "update-schedule", "--cli-input-json", "file://schedule.json", "--state", "ENABLED"
    )
    return broken(
        f"it is {state}: no tick comes by itself",
        about=name,
        fix="enable it",
        commands=(f"{read} > schedule.json", write),
        page=_SILENT,
    )


def check_functions(patient: Patient) -> Iterator[Finding]:
    """Whether each function can run, and whether flips are taken from the queue."""
    outputs = patient.outputs()
    client = patient.client("lambda")
    for output in sorted(each for each in outputs if each.endswith("Function")):
        name = outputs[output]
        with explained("lambda:GetFunctionConfiguration"):
            told = client.get_function_configuration(FunctionName=name)
        yield judge_function(output.removesuffix("Function").lower(), told)
        yield from _check_concurrency(patient, output.removesuffix("Function").lower(), name)
    if flip := outputs.get("FlipFunction"):
        with explained("lambda:ListEventSourceMappings"):
            sources = client.list_event_source_mappings(FunctionName=flip)["EventSourceMappings"]
        yield from judge_sources(patient, sources)


def judge_function(verb: str, told: Mapping[str, Any]) -> Finding:
    """Lambda's own words on a function."""
    state, update = told.get("State", "Active"), told.get("LastUpdateStatus", "Successful")
    if state not in _WORKING:
        because = told.get("StateReason") or "AWS gives no reason"
        return broken(f"it is {state}: {because}", about=verb, fix="deploy again", commands=("cdk deploy",))
    if update == "Failed":
        because = told.get("LastUpdateStatusReason") or "AWS gives no reason"
        seen = f"its last update failed: {because}"
        return broken(seen, about=verb, fix="deploy again", commands=("cdk deploy",))
    return ok("can run", about=verb)


def _check_concurrency(patient: Patient, verb: str, name: str) -> Iterator[Finding]:
    """A reservation of nothing switches a function off; who may not see that is told by its alarm."""
    try:
        with explained("lambda:GetFunctionConcurrency"):
            told = patient.client("lambda").get_function_concurrency(FunctionName=name)
    except AwsError as error:
        if error.failure.kind is not FailureKind.REFUSED:
            raise
        return
    if told.get("ReservedConcurrentExecutions") == 0:
        give_back = patient.aws("lambda", "delete-function-concurrency", "--function-name", name)
        yield broken(
            "it is switched off: its reserved concurrency is 0",
            about=verb,
            fix="take the reservation away",
            commands=(give_back,),
            page="runbooks/WatchdogThrottled.md",
        )


def judge_sources(patient: Patient, sources: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """What brings the flip function its requests."""
    page = "runbooks/FlipRequestsWaiting.md"
    if not sources:
        seen = "nothing brings it what is asked for"
        yield broken(seen, about="flip", fix="deploy again", commands=("cdk deploy",), page=page)
    for source in sources:
        if source.get("State") not in _TAKING:
            enable = patient.aws(
                "lambda", "update-event-source-mapping", "--uuid", source["UUID"], "--enabled"
            )
            yield broken(
                f"it does not take what is asked for: its event source is {source.get('State')}",
                about="flip",
                fix="enable it",
                commands=(enable,),
                page=page,
            )


def check_queues(patient: Patient) -> Iterator[Finding]:
    """Whether anything was given up."""
    outputs = patient.outputs()
    client = patient.client("sqs")
    for output, holds, page in _QUEUES:
        if (url := outputs.get(output)) is None:
            continue
        with explained("sqs:GetQueueAttributes"):
            told = client.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
        count = int(told.get("Attributes", {}).get("ApproximateNumberOfMessages", 0))
        look = patient.aws("sqs", "receive-message", "--queue-url", url, "--max-number-of-messages", "10")
        yield judge_queue(holds, count, look=look, page=f"runbooks/{page}.md")


def judge_queue(holds: str, count: int, *, look: str, page: str) -> Finding:
    """A queue of what failed is empty while all is well."""
    if count == 0:
        return ok("none", about=holds)
    fix = "look at them, mend what they tell of, and purge the queue"
    return warning(f"{count:,} waiting", about=holds, fix=fix, commands=(look,), page=page)


def check_alarms(patient: Patient) -> Iterator[Finding]:
    """Which alarms of the stack ring, and which would ring unheard."""
    name = _stack_name(patient)
    client = patient.client("cloudwatch")
    with explained("cloudwatch:DescribeAlarms"):
        told = [
            one
            for page in pages(client.describe_alarms, of="MetricAlarms", AlarmNamePrefix=f"{name}-")
            for one in page.get("MetricAlarms", ())
        ]
    own = {one["AlarmName"]: one for one in told if _page_of(one["AlarmName"], name)}
    yield from judge_alarms(patient, name, own)


def judge_alarms(patient: Patient, stack: str, alarms: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """Alarms by their state."""
    for alarm, told in alarms.items():
        page = f"runbooks/{_page_of(alarm, stack)}.md"
        if told.get("StateValue") == "ALARM":
            yield broken(
                str(told.get("StateReason") or "it rings"), about=alarm, fix="see its page", page=page
            )
        if told.get("ActionsEnabled") is False:
            enable = patient.aws("cloudwatch", "enable-alarm-actions", "--alarm-names", alarm)
            seen = "its actions are switched off: it rings unheard"
            yield warning(seen, about=alarm, fix="switch them on", commands=(enable,), page=page)
    quiet = sum(told.get("StateValue") != "ALARM" for told in alarms.values())
    if alarms:
        yield ok(f"{quiet} of {len(alarms)} are quiet")
    else:
        fix = "deploy again; without them nobody hears when the watchdog falls silent"
        yield warning(f"{stack} has no alarm", fix=fix, commands=("cdk deploy",), page=_DOCS)


def _page_of(alarm: str, stack: str) -> str | None:
    """The page of an alarm of this stack; None of one that only begins like it."""
    found = _ALARM.fullmatch(alarm.removeprefix(f"{stack}-"))
    return found[1] if found else None


def _stack_name(patient: Patient) -> str:
    stack = patient.stack
    assert stack is not None, "asked only where a stack stands"
    return stack.name
