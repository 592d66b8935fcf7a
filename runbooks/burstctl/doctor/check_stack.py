"""The deployed stack: is it there, does its schedule run, do its functions, did anything get stuck."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from burstctl.doctor.context import DoctorContext
from burstctl.doctor.finding import Finding, LookupFailedError, broken, from_error, ok, skipped, warning
from burstwatch.adapters.aws.botocore_hooks import paginate
from burstwatch.adapters.aws.errors import AwsError, FailureKind, translate_errors
from burstwatch.adapters.policy.deployments import DEPLOYMENTS_PATH, Deployment, DeploymentError
from burstwatch.wiring.settings import parse_ledger

NO_STACK_MESSAGE: Final = "no stack is deployed in this account and region"
_UNINSTALL_PAGE: Final = "runbooks/Uninstall.md"
_NAMES_PAGE: Final = "runbooks/README.md"
_SILENT_PAGE: Final = "runbooks/WatchdogSilent.md"
_EXPECTED_SCHEDULES: Final = 2  # the sweep and the focus; see infra/schedule.py

_QUEUES: Final = (
    ("FailedEventsQueue", "ticks and events given up", "TicksDeadLettered"),
    ("UndeliveredQueue", "alerts that were not delivered", "AlertsDeadLettered"),
    ("DeadFlipsQueue", "flips that could not be processed", "FlipRequestsDeadLettered"),
)
"""Outputs of the stack, what is in those queues, and the page about it."""

_NOT_THERE: Final = frozenset({"NotFound", "ResourceNotFoundException"})
_KEPT_NAME_CHARS: Final = 20
"""CloudFormation shortens the stack's name in the names that it makes; this much of it remains."""

_ALARM_NAME: Final = re.compile(r"([A-Z]\w+)(?:-[a-z]+)?")
_WORKING_STATES: Final = frozenset({"Active", "Inactive", "Pending"})
_ENABLED_STATES: Final = frozenset({"Enabled", "Enabling", "Creating", "Updating"})
_SCHEDULE_QUERY: Final = (
    "{Name:Name,GroupName:GroupName,ScheduleExpression:ScheduleExpression,"
    "FlexibleTimeWindow:FlexibleTimeWindow,Target:Target,Description:Description}"
)


def check_stack(context: DoctorContext) -> Iterator[Finding]:
    """The deployed stacks, the active one, and the result of its last deployment."""
    stacks = context.stacks()
    if not stacks.results:
        yield skipped(
            NO_STACK_MESSAGE,
            fix="cdk deploy, in a checkout of burstwatch, makes one; a watch from a shell needs none",
        )
        return
    for result in stacks.results:
        if isinstance(result, DeploymentError):
            problem = result.problem
            yield broken(problem.cause, fix=problem.fix)
    stack = stacks.active
    if stack is None:
        return
    other_stacks = [readable_stack for readable_stack in stacks.readable if readable_stack != stack]
    if waiting_names := [other_stack.name for other_stack in other_stacks if other_stack.flips]:
        yield warning(
            f"{stack.name} may flip; only proposing: {', '.join(waiting_names)}",
            fix="destroy one of them, or deploy it with flips: false: two watchdogs use two ledgers",
            page="runbooks/AnotherDeployment.md",
        )
    for other_stack in other_stacks:
        if not other_stack.flips:
            yield ok(f"{other_stack.name} only proposes: it was deployed without flips")
    flip_ability = "flips what opted in" if stack.flips else "only proposes: it was deployed without flips"
    try:
        status = context.outputs()["StackStatus"]
    except LookupFailedError as error:
        yield ok(f"{_names_of(stack)}, {flip_ability}")
        if _is_unknown_stack(error.error):
            topic, table = _find_leftover_parts(context, stack)
            yield judge_unknown_stack(stack, topic=topic, table=table)
        else:
            yield from_error(error.error)
        return
    yield judge_status(_names_of(stack), status, flip_ability)


def _names_of(stack: Deployment) -> str:
    """Its own name, and that in CloudFormation if it is another."""
    if stack.stack_name == stack.name:
        return stack.name
    return f"{stack.name} ({stack.stack_name} in CloudFormation)"


def _is_unknown_stack(error: Exception) -> bool:
    return isinstance(error, AwsError) and error.failure.code == "ValidationError"


def _find_leftover_parts(context: DoctorContext, stack: Deployment) -> tuple[str, str]:
    """The topic and the table of a registered deployment; empty: it is gone."""
    topic, table = stack.topic_arn.rpartition(":")[2], parse_ledger(stack.ledger).name
    return (
        _find_part(
            f"topic {topic}",
            "sns:GetTopicAttributes",
            lambda: context.client("sns").get_topic_attributes(TopicArn=stack.topic_arn),
        ),
        _find_part(
            f"table {table}",
            "dynamodb:DescribeTable",
            lambda: context.client("dynamodb").describe_table(TableName=table),
        ),
    )


def _find_part(part: str, action: str, request: Callable[[], object]) -> str:
    """The part if it is there, or may be there because AWS refuses to say; otherwise empty."""
    try:
        with translate_errors(action):
            request()
    except AwsError as error:
        return "" if error.failure.code in _NOT_THERE else f"perhaps {part}"
    return part


def judge_unknown_stack(stack: Deployment, *, topic: str, table: str) -> Finding:
    """CloudFormation has no stack of the registered name; a deployment may have another name there.

    Only the topic shows that: the table stays when the stack is deleted.
    """
    summary = f"Parameter Store has a deployment {stack.name}, and CloudFormation has no stack"
    summary += f" {stack.stack_name}"
    remains = ", ".join(filter(None, (topic, table)))
    if topic and stack.recorded_stack_name is None:
        return warning(
            f"{summary}; still there: {remains}",
            fix="deploy it again with this version, which records what CloudFormation calls the stack",
            page=_NAMES_PAGE,
        )
    if topic:
        return warning(
            f"{summary}; still there: {remains}",
            fix="look for it in the console of CloudFormation, among the deleted stacks as well",
            page=_NAMES_PAGE,
        )
    fix = f"delete the parameter {DEPLOYMENTS_PATH}/{stack.name} and those below it"
    if table:
        return warning(
            f"{summary}: it was removed; still there: {table}",
            fix=f"{fix}; keep the table for a new deployment (ExistingLedger; with the CDK, ledger)",
            page=_UNINSTALL_PAGE,
        )
    return warning(
        f"{summary}, and neither its topic nor its ledger is there: it was removed",
        fix=fix,
        page=_UNINSTALL_PAGE,
    )


def judge_status(name: str, status: str, flip_ability: str) -> Finding:
    """The result of the last deployment."""
    summary = f"{name}, {flip_ability}, {status}"
    if status.endswith("_FAILED") or status == "ROLLBACK_COMPLETE" or status.startswith("DELETE"):
        return broken(summary, fix="look at its events in the console of CloudFormation, then deploy again")
    if status.endswith("_IN_PROGRESS"):
        return warning(summary, fix="wait until it is done, then run this again")
    if "ROLLBACK" in status:
        return warning(f"{summary}: the last update was rolled back", fix="deploy again (cdk deploy)")
    return ok(summary)


def check_schedule(context: DoctorContext) -> Iterator[Finding]:
    """Both schedules, by the function that they start."""
    prefix, watch_function = _active_stack(context).stack_name, context.outputs()["WatchFunction"]
    prefix = prefix[:_KEPT_NAME_CHARS]
    client = context.client("scheduler")
    with translate_errors("scheduler:ListSchedules"):
        schedules = [
            schedule
            for page in paginate(client.list_schedules, list_key="Schedules", NamePrefix=prefix)
            for schedule in page["Schedules"]
        ]
    watch_schedules = [
        schedule
        for schedule in schedules
        if schedule.get("Target", {}).get("Arn", "").endswith(f":function:{watch_function}")
    ]
    for schedule in watch_schedules:
        yield judge_schedule(context, schedule)
    if len(watch_schedules) < _EXPECTED_SCHEDULES:
        summary = f"{len(watch_schedules)} of {_EXPECTED_SCHEDULES} schedules start the watch function"
        fix = "if the stage does not say schedule: false on purpose, deploy again"
        yield warning(summary, fix=fix, commands=("cdk deploy",), page=_SILENT_PAGE)


def judge_schedule(context: DoctorContext, schedule: Mapping[str, Any]) -> Finding:
    """Enabled is well; anything else is put right by writing it again as it is."""
    name, state = str(schedule["Name"]), str(schedule.get("State", "UNKNOWN"))
    if state == "ENABLED":
        return ok("enabled", subject=name)
    get_command = context.aws_command("scheduler", "get-schedule", "--name", name, "--query", _SCHEDULE_QUERY)
    update_command = context.aws_command(
        "scheduler", "update-schedule", "--cli-input-json", "file://schedule.json", "--state", "ENABLED"
    )
    return broken(
        f"it is {state}: no ticks are scheduled",
        subject=name,
        fix="enable it",
        commands=(f"{get_command} > schedule.json", update_command),
        page=_SILENT_PAGE,
    )


def check_functions(context: DoctorContext) -> Iterator[Finding]:
    """Whether each function can run, and whether flips are taken from the queue."""
    outputs = context.outputs()
    client = context.client("lambda")
    for output in sorted(name_of_output for name_of_output in outputs if name_of_output.endswith("Function")):
        name = outputs[output]
        with translate_errors("lambda:GetFunctionConfiguration"):
            configuration = client.get_function_configuration(FunctionName=name)
        yield judge_function(output.removesuffix("Function").lower(), configuration)
        yield from _check_concurrency(context, output.removesuffix("Function").lower(), name)
    if flip := outputs.get("FlipFunction"):
        with translate_errors("lambda:ListEventSourceMappings"):
            sources = client.list_event_source_mappings(FunctionName=flip)["EventSourceMappings"]
        yield from judge_sources(context, sources)


def judge_function(function: str, configuration: Mapping[str, Any]) -> Finding:
    """Lambda's own words on a function."""
    state, update = configuration.get("State", "Active"), configuration.get("LastUpdateStatus", "Successful")
    if state not in _WORKING_STATES:
        reason = configuration.get("StateReason") or "AWS gives no reason"
        return broken(
            f"it is {state}: {reason}", subject=function, fix="deploy again", commands=("cdk deploy",)
        )
    if update == "Failed":
        reason = configuration.get("LastUpdateStatusReason") or "AWS gives no reason"
        summary = f"its last update failed: {reason}"
        return broken(summary, subject=function, fix="deploy again", commands=("cdk deploy",))
    return ok("can run", subject=function)


def _check_concurrency(context: DoctorContext, function: str, name: str) -> Iterator[Finding]:
    """A reserved concurrency of 0 disables a function; without the permission, its alarm shows that."""
    try:
        with translate_errors("lambda:GetFunctionConcurrency"):
            response = context.client("lambda").get_function_concurrency(FunctionName=name)
    except AwsError as error:
        if error.failure.kind is not FailureKind.REFUSED:
            raise
        return
    if response.get("ReservedConcurrentExecutions") == 0:
        restore_command = context.aws_command(
            "lambda", "delete-function-concurrency", "--function-name", name
        )
        yield broken(
            "it is switched off: its reserved concurrency is 0",
            subject=function,
            fix="take the reservation away",
            commands=(restore_command,),
            page="runbooks/WatchdogThrottled.md",
        )


def judge_sources(context: DoctorContext, sources: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """What brings the flip function its requests."""
    page = "runbooks/FlipRequestsWaiting.md"
    if not sources:
        summary = "it has no event source, so it receives no requests"
        yield broken(summary, subject="flip", fix="deploy again", commands=("cdk deploy",), page=page)
    for source in sources:
        if source.get("State") not in _ENABLED_STATES:
            enable_command = context.aws_command(
                "lambda", "update-event-source-mapping", "--uuid", source["UUID"], "--enabled"
            )
            yield broken(
                f"it does not receive requests: its event source is {source.get('State')}",
                subject="flip",
                fix="enable it",
                commands=(enable_command,),
                page=page,
            )


def check_queues(context: DoctorContext) -> Iterator[Finding]:
    """Whether a dead-letter queue has messages."""
    outputs = context.outputs()
    client = context.client("sqs")
    for output, contents, page in _QUEUES:
        if (url := outputs.get(output)) is None:
            continue
        with translate_errors("sqs:GetQueueAttributes"):
            response = client.get_queue_attributes(
                QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"]
            )
        count = int(response.get("Attributes", {}).get("ApproximateNumberOfMessages", 0))
        receive_command = context.aws_command(
            "sqs", "receive-message", "--queue-url", url, "--max-number-of-messages", "10"
        )
        yield judge_queue(contents, count, receive_command=receive_command, page=f"runbooks/{page}.md")


def judge_queue(contents: str, count: int, *, receive_command: str, page: str) -> Finding:
    """A queue of what failed is empty while all is well."""
    if count == 0:
        return ok("none", subject=contents)
    fix = "read them, fix their causes, and purge the queue"
    return warning(f"{count:,} waiting", subject=contents, fix=fix, commands=(receive_command,), page=page)


def check_alarms(context: DoctorContext) -> Iterator[Finding]:
    """Which alarms of the stack ring, and which would ring unheard."""
    name = _active_stack(context).name
    client = context.client("cloudwatch")
    with translate_errors("cloudwatch:DescribeAlarms"):
        alarms = [
            alarm
            for page in paginate(client.describe_alarms, list_key="MetricAlarms", AlarmNamePrefix=f"{name}-")
            for alarm in page.get("MetricAlarms", ())
        ]
    stack_alarms = {alarm["AlarmName"]: alarm for alarm in alarms if _page_of(alarm["AlarmName"], name)}
    yield from judge_alarms(context, name, stack_alarms)


def judge_alarms(
    context: DoctorContext, stack: str, alarms: Mapping[str, Mapping[str, Any]]
) -> Iterator[Finding]:
    """Alarms by their state."""
    for alarm, description in alarms.items():
        page = f"runbooks/{_page_of(alarm, stack)}.md"
        if description.get("StateValue") == "ALARM":
            yield broken(
                str(description.get("StateReason") or "it rings"),
                subject=alarm,
                fix="see its page",
                page=page,
            )
        if description.get("ActionsEnabled") is False:
            enable_command = context.aws_command("cloudwatch", "enable-alarm-actions", "--alarm-names", alarm)
            summary = "its actions are disabled: it notifies no one"
            yield warning(summary, subject=alarm, fix="switch them on", commands=(enable_command,), page=page)
    quiet = sum(description.get("StateValue") != "ALARM" for description in alarms.values())
    if alarms:
        yield ok(f"{quiet} of {len(alarms)} are quiet")
    else:
        fix = "deploy again; without alarms, a silent watchdog goes unnoticed"
        yield warning(f"{stack} has no alarm", fix=fix, commands=("cdk deploy",), page=_SILENT_PAGE)


def _page_of(alarm: str, stack: str) -> str | None:
    """The page of an alarm of this stack; None of one that only begins like it."""
    name_match = _ALARM_NAME.fullmatch(alarm.removeprefix(f"{stack}-"))
    return name_match[1] if name_match else None


def _active_stack(context: DoctorContext) -> Deployment:
    stack = context.stack
    assert stack is not None, "checked only if a stack is deployed"
    return stack
