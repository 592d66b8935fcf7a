"""What a deployed stack consists of, for the ``aws`` of the pages: moto's queues, logs, functions, alarms.

Which parts there are, and what the stack calls them, is read from the template that the app synthesizes.
"""

import json
from collections.abc import Mapping
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import ClientError

from burstlab.fake_aws.protocols import Call, Response, parse_form, render_xml
from burstlab.model.aws_error import AwsError
from support.stack.synthesized_stacks import synth

ACCOUNT = "123456789012"
STACK = "burstwatch"
_ROLE = f"arn:aws:iam::{ACCOUNT}:role/burstwatch"
_SUFFIX = "1ABCDEFGHIJKL"
_PUT_EVENTS = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "events:PutEvents", "Resource": "*"}],
    }
)


def template() -> dict[str, Any]:
    return synth().template


def physical_name(logical: str) -> str:
    """As CloudFormation names what has no name of its own."""
    return f"{STACK}-{logical}-{_SUFFIX}"


_SOURCE = "AWS::Lambda::EventSourceMapping"


class MotoStack:
    """The parts of one stack; ``outputs`` are those of CloudFormation.

    An alarm is made when it rings: there are many, and each call takes its time.
    """

    SERVICES = ("sqs", "logs", "lambda", "iam", "scheduler", "cloudwatch", "secretsmanager", "dynamodb")

    def __init__(self, client: Any) -> None:
        self.client = client
        self.outputs: dict[str, str] = {}
        self._cleanups: list[tuple[Any, dict[str, Any]]] = []

    def build(self) -> None:
        parts = sorted(
            template()["Resources"].items(), key=lambda part: (part[1]["Type"] == _SOURCE, part[0])
        )
        created = {name: self._make(name, part) for name, part in parts}
        for key, output in template()["Outputs"].items():
            self.outputs[key] = _text(output["Value"], created)

    def handles(self, call: Call) -> bool:
        """As the lab asks whom it hands a call to: this is its CloudFormation, as far as it goes."""
        return call.action == "DescribeStacks"

    def handle(self, call: Call) -> Response:
        if parse_form(call.body).get("StackName", STACK) != STACK:
            raise AwsError("ValidationError", "Stack with that id does not exist")
        stack = {
            "StackName": STACK,
            "CreationTime": "2026-11-01T09:00:00Z",
            "StackStatus": "CREATE_COMPLETE",
            "Outputs": [{"OutputKey": key, "OutputValue": value} for key, value in self.outputs.items()],
        }
        reported = render_xml({"DescribeStacksResult": {"Stacks": [stack]}}, "member")
        space = "http://cloudformation.amazonaws.com/doc/2010-05-15/"
        text = f'<DescribeStacksResponse xmlns="{space}">{reported}</DescribeStacksResponse>'
        return Response(body=text.encode(), content_type="text/xml")

    def send(self, output: str, body: dict[str, Any] | str, **attributes: Any) -> None:
        """Put a message into the queue of this output."""
        text = body if isinstance(body, str) else json.dumps(body)
        self.client("sqs").send_message(QueueUrl=self.outputs[output], MessageBody=text, **attributes)

    def log(self, output: str, at_s: float, record: dict[str, Any] | str) -> None:
        """Put a line into the log group of this output."""
        text = record if isinstance(record, str) else json.dumps(record)
        event = {"timestamp": int(at_s * 1000), "message": text}
        self.client("logs").put_log_events(
            logGroupName=self.outputs[output], logStreamName="2026/11/20/[$LATEST]", logEvents=[event]
        )

    def alarm(self, name: str) -> None:
        """Let the stack's alarm of this name ring."""
        alarms, name = self.client("cloudwatch"), f"{STACK}-{name}"
        [properties] = [
            part["Properties"]
            for part in template()["Resources"].values()
            if part["Type"] == "AWS::CloudWatch::Alarm" and part["Properties"]["AlarmName"] == name
        ]
        alarms.put_metric_alarm(
            AlarmName=name,
            AlarmDescription=properties["AlarmDescription"],
            Namespace="AWS/Lambda",
            MetricName="Invocations",
            Statistic="Sum",
            Period=60,
            EvaluationPeriods=properties["EvaluationPeriods"],
            Threshold=properties["Threshold"],
            ComparisonOperator=properties["ComparisonOperator"],
        )
        self._cleanups.append((alarms.delete_alarms, {"AlarmNames": [name]}))
        alarms.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="Threshold Crossed")

    def disable_schedule(self, logical: str) -> None:
        scheduler = self.client("scheduler")
        held = scheduler.get_schedule(Name=physical_name(logical))
        wanted = ("Name", "ScheduleExpression", "FlexibleTimeWindow", "Target")
        scheduler.update_schedule(State="DISABLED", **{key: held[key] for key in wanted})

    def disable_source(self) -> None:
        """Let Lambda not poll the queue of flips."""
        functions = self.client("lambda")
        flip = self.outputs["FlipFunction"]
        [source] = functions.list_event_source_mappings(FunctionName=flip)["EventSourceMappings"]
        functions.update_event_source_mapping(UUID=source["UUID"], Enabled=False)

    def add_secret(self, name: str) -> None:
        self.expect_secret(name)
        self.client("secretsmanager").create_secret(Name=name, SecretString="-")

    def expect_secret(self, name: str) -> None:
        """Somebody will make it; it goes with the stack."""
        delete = self.client("secretsmanager").delete_secret
        self._cleanups.append((delete, {"SecretId": name, "ForceDeleteWithoutRecovery": True}))

    def add_retained(self, table: str, *, role: str, policy: str) -> None:
        """The ledger's table, protected; and the policy of a role of the account's hosts."""
        dynamodb, iam = self.client("dynamodb"), self.client("iam")
        dynamodb.create_table(
            TableName=table,
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
            DeletionProtectionEnabled=True,
        )
        self._cleanups.append((dynamodb.delete_table, {"TableName": table}))
        self._cleanups.append(
            (dynamodb.update_table, {"TableName": table, "DeletionProtectionEnabled": False})
        )
        iam.create_role(RoleName=role, AssumeRolePolicyDocument="{}")
        self._cleanups.append((iam.delete_role, {"RoleName": role}))
        iam.put_role_policy(RoleName=role, PolicyName=policy, PolicyDocument=_PUT_EVENTS)
        self._cleanups.append((iam.delete_role_policy, {"RoleName": role, "PolicyName": policy}))

    def destroy(self) -> None:
        """Take all of it away: moto's memory is that of the process."""
        for delete, parameters in reversed(self._cleanups):
            try:
                delete(**parameters)
            except ClientError as error:  # the page took it away itself
                if not any(word in str(error) for word in ("NotFound", "NonExistent", "NoSuchEntity")):
                    raise

    def _make(self, logical: str, part: dict[str, Any]) -> str:
        makers = {
            "AWS::SQS::Queue": self._queue,
            "AWS::Logs::LogGroup": self._log_group,
            "AWS::Lambda::Function": self._function,
            _SOURCE: self._source,
            "AWS::Scheduler::Schedule": self._schedule,
        }
        make = makers.get(part["Type"])
        return make(physical_name(logical), part.get("Properties", {})) if make else physical_name(logical)

    def _queue(self, name: str, properties: dict[str, Any]) -> str:
        fifo = {"FifoQueue": "true"} if properties.get("FifoQueue") else {}
        sqs = self.client("sqs")
        url = sqs.create_queue(QueueName=f"{name}.fifo" if fifo else name, Attributes=fifo)["QueueUrl"]
        self._cleanups.append((sqs.delete_queue, {"QueueUrl": url}))
        return url

    def _log_group(self, name: str, _: dict[str, Any]) -> str:
        logs = self.client("logs")
        logs.create_log_group(logGroupName=name)
        logs.create_log_stream(logGroupName=name, logStreamName="2026/11/20/[$LATEST]")
        self._cleanups.append((logs.delete_log_group, {"logGroupName": name}))
        return name

    def _function(self, name: str, properties: dict[str, Any]) -> str:
        functions, iam = self.client("lambda"), self.client("iam")
        role = {"RoleName": _ROLE.rpartition("/")[2]}
        try:
            iam.create_role(AssumeRolePolicyDocument="{}", **role)
        except iam.exceptions.EntityAlreadyExistsException:
            pass
        else:
            self._cleanups.append((iam.delete_role, role))
        functions.create_function(
            FunctionName=name,
            Role=_ROLE,
            Code={"ZipFile": b"-"},
            Handler=properties["Handler"],
            Runtime="python3.12",
        )
        self._cleanups.append((functions.delete_function, {"FunctionName": name}))
        return name

    def _source(self, name: str, properties: dict[str, Any]) -> str:
        functions = self.client("lambda")
        logical = properties["EventSourceArn"]["Fn::GetAtt"][0]
        is_fifo = template()["Resources"][logical]["Properties"].get("FifoQueue")
        queue = f"{physical_name(logical)}.fifo" if is_fifo else physical_name(logical)
        created = functions.create_event_source_mapping(
            FunctionName=physical_name(properties["FunctionName"]["Ref"]),
            EventSourceArn=f"arn:aws:sqs:us-east-1:{ACCOUNT}:{queue}",
            BatchSize=properties.get("BatchSize", 1),
        )
        self._cleanups.append((functions.delete_event_source_mapping, {"UUID": created["UUID"]}))
        return name

    def _schedule(self, name: str, properties: dict[str, Any]) -> str:
        scheduler, target = (
            self.client("scheduler"),
            physical_name(properties["Target"]["Arn"]["Fn::GetAtt"][0]),
        )
        scheduler.create_schedule(
            Name=name,
            ScheduleExpression=properties["ScheduleExpression"],
            FlexibleTimeWindow={"Mode": "OFF"},
            Target={"Arn": f"arn:aws:lambda:us-east-1:{ACCOUNT}:function:{target}", "RoleArn": _ROLE},
        )
        self._cleanups.append((scheduler.delete_schedule, {"Name": name}))
        return name


def _text(value: Any, created: Mapping[str, str]) -> str:
    """A value of the template as CloudFormation would write it; an attribute as if it were an ARN."""
    match value:
        case {"Ref": name}:
            return created[name]
        case {"Fn::GetAtt": [name, _]}:
            return f"arn:aws:events:us-east-1:{ACCOUNT}:{created[name]}"
        case {"Fn::Join": [between, parts]}:
            return between.join(_text(part, created) for part in parts)
        case _:
            return str(value)


@contextmanager
def build_moto_stack(client: Any):
    stack = MotoStack(client)
    try:
        stack.build()
        yield stack
    finally:
        stack.destroy()
