"""A deployed stack that a test breaks."""

from urllib.request import Request, urlopen

ROLE = "arn:aws:iam::123456789012:role/r"


def clear_parameters(lab):
    """What other tests made; and what moto takes long to load is loaded before anything is timed."""
    reset(lab)
    lab.client("secretsmanager").list_secrets()
    lab.client("scheduler").list_schedules()
    lab.client("cloudwatch").describe_alarms()
    lab.client("sqs").list_queues()
    lab.client("sns").list_topics()


def reset(lab):
    """moto's memory is that of the process, and of every test in it."""
    urlopen(Request(f"{lab.url}/moto-api/reset", method="POST"), timeout=60).close()


def schedule(scheduler, name, function, call, state="ENABLED"):
    arn = f"arn:aws:lambda:us-east-1:123456789012:function:{function}"
    getattr(scheduler, call)(
        Name=name,
        ScheduleExpression="rate(1 minute)",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={"Arn": arn, "RoleArn": ROLE},
        State=state,
    )


def alarm(lab, name, state):
    cloudwatch = lab.client("cloudwatch")
    cloudwatch.put_metric_alarm(
        AlarmName=name,
        ComparisonOperator="LessThanThreshold",
        EvaluationPeriods=1,
        MetricName="Invocations",
        Namespace="AWS/Lambda",
        Period=60,
        Statistic="Sum",
        Threshold=1,
    )
    cloudwatch.set_alarm_state(AlarmName=name, StateValue=state, StateReason="it hardly runs")
