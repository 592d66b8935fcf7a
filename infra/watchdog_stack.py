"""The watchdog as a stack: its functions, their permissions, and who is notified."""

from typing import Final

from aws_cdk import Annotations, CfnOutput, Environment, IStackSynthesizer, Stack, Tags
from aws_cdk.aws_iam import IManagedPolicy, ManagedPolicy, PermissionsBoundary
from aws_cdk.aws_sqs import IQueue
from constructs import Construct

from infra.alarms import (
    Alarms,
    dead_letter_alarms,
    dropped_event_alarms,
    error_alarms,
    flip_alarms,
    freshness_alarms,
    heartbeat_alarm,
    queue_age_alarm,
    throttle_alarms,
)
from infra.config import StageConfig
from infra.dashboard import FleetDashboard
from infra.event_rules import EventRules
from infra.functions import FunctionDefaults, Sizing, WatchdogFunction, function_defaults
from infra.ledger import LedgerTable
from infra.messaging import Alerts, FlipRequests, make_dead_letter_queue
from infra.metrics import NAMESPACE
from infra.parameters import DEPLOYMENTS_PATH, Parameters
from infra.permissions import (
    READ_INSTANCE_TYPES,
    READ_METRICS,
    READ_VOLUMES,
    READS_OF_KINDS,
    Permission,
    list_deployments,
    modify_opted_in,
    publish,
    read_policy,
    read_secret,
    use_ledger,
    use_sent_log,
    write_parameter_once,
)
from infra.policy import DeployedPolicy
from infra.schedule import Schedule

SENT_LOG_PARTITIONS: Final = "sent*"
"""The part of the ledger's table in which notify records what it sent."""

# 1,769 MB give a function one vCPU; Source: Lambda developer guide, "Configure memory"
_WATCH: Final = Sizing(memory_mib=1769, timeout_s=300)
_FLIP: Final = Sizing(memory_mib=512, timeout_s=50)
_SETTLE: Final = Sizing(memory_mib=512, timeout_s=30)
_NOTIFY: Final = Sizing(memory_mib=256, timeout_s=60, retries=2, max_event_age_s=3600)


class WatchdogStack(Stack):
    """Everything that one region needs."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: StageConfig,
        policy: DeployedPolicy,
        env: Environment | None = None,
        synthesizer: IStackSynthesizer | None = None,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            stack_name=stage.name,
            env=env,
            synthesizer=synthesizer,
            description="burstwatch: predicts when gp2 volumes run out of burst credits",
        )
        self._stage = stage
        self._policy = policy
        self._ledger = LedgerTable(self, "LedgerTable", existing=stage.ledger).table
        self._parameters = Parameters(self, "Parameters", name=stage.name)
        self._parameters.put_policy(policy.document)
        self._alerts = Alerts(
            self, "Alerts", name=stage.name, emails=stage.recipients.emails, chat=stage.recipients.chat
        )
        self._failed_events_queue = make_dead_letter_queue(self, "FailedEvents")
        self._flip_requests = (
            FlipRequests(self, "FlipRequests", timeout_s=_FLIP.timeout_s) if stage.flips else None
        )
        self._function_defaults = self._make_function_defaults()
        self.watch = self._make_reader_function(
            "Watch", "watch", "looks at volumes, decides and alerts", _WATCH, self._failed_events_queue
        )
        self.settle = self._make_reader_function(
            "Settle", "settle", "follows what happens to volumes", _SETTLE
        )
        self.probe = self._make_probe_function()
        self.flip = self._make_flip_function() if self._flip_requests else None
        self.notify = self._make_notify_function()
        self.event_rules = EventRules(
            self,
            "Hints",
            settle=self.settle,
            probe=self.probe,
            probe_bus_name=f"{stage.name}-probe",
            dead_letter_queue=self._failed_events_queue,
            with_databases="rds" in stage.resources,
        )
        if stage.schedule:
            Schedule(
                self,
                "Schedule",
                watch=self.watch,
                sweep_minutes=policy.sweep_minutes,
                dead_letter_queue=self._failed_events_queue,
            )
        self._register_deployment()
        self._add_alarms_and_dashboard()
        self._add_tags_and_outputs()
        if stage.permissions_boundary:
            PermissionsBoundary.of(self).apply(self._boundary(stage.permissions_boundary))

    def _boundary(self, policy: str) -> IManagedPolicy:
        """The permissions boundary of every role, by ARN or by its name in this account."""
        if policy.startswith("arn:"):
            return ManagedPolicy.from_managed_policy_arn(self, "Boundary", policy)
        return ManagedPolicy.from_managed_policy_name(self, "Boundary", policy)

    @property
    def _functions(self) -> list[WatchdogFunction]:
        return [
            function
            for function in (self.watch, self.flip, self.settle, self.probe, self.notify)
            if function is not None
        ]

    def _make_function_defaults(self) -> FunctionDefaults:
        """The settings, code and layer that all functions share."""
        name = self._stage.name
        return function_defaults(
            self,
            environment={
                "BURSTWATCH_CLOCK": "wall",
                "BURSTWATCH_DEPLOYMENT": name,
                "BURSTWATCH_LEDGER": f"dynamodb:{self._ledger.table_name}",
                "BURSTWATCH_POLICY": self._parameters.policy_name,
                "BURSTWATCH_TOPIC_ARN": self._alerts.topic.topic_arn,
                "POWERTOOLS_LOG_LEVEL": "INFO",
                "POWERTOOLS_METRICS_NAMESPACE": NAMESPACE,
                "POWERTOOLS_SERVICE_NAME": name,
                "POWERTOOLS_TRACE_DISABLED": "false" if self._stage.tracing else "true",
            },
            log_retention_days=self._stage.log_retention_days,
            tracing=self._stage.tracing,
            architecture=self._stage.architecture,
        )

    def _make_reader_function(
        self,
        construct_id: str,
        handler_name: str,
        purpose: str,
        sizing: Sizing,
        dead_letter_queue: IQueue | None = None,
    ) -> WatchdogFunction:
        """A function that evaluates volumes and may request flips, but never modifies a volume.

        Without ``dead_letter_queue``, the function is never invoked asynchronously.
        """
        environment = {}
        if self._flip_requests:
            environment["BURSTWATCH_FLIP_QUEUE_URL"] = self._flip_requests.queue.queue_url
        function = WatchdogFunction(
            self,
            construct_id,
            handler_name=handler_name,
            purpose=purpose,
            defaults=self._function_defaults,
            sizing=sizing,
            environment=environment,
            dead_letter_queue=dead_letter_queue,
        )
        self._grant_read(function)
        if self._flip_requests:
            function.allow(*self._flip_authority_permissions, self._flip_requests.send_permission)
        return function

    def _make_probe_function(self) -> WatchdogFunction:
        """The function that any host can feed: it evaluates volumes and alerts, but requests no flip."""
        function = WatchdogFunction(
            self,
            "Probe",
            handler_name="probe",
            purpose="records what hosts report of their volumes",
            defaults=self._function_defaults,
            sizing=_SETTLE,
            environment={},
            dead_letter_queue=None,
        )
        self._grant_read(function)
        return function

    def _make_flip_function(self) -> WatchdogFunction:
        """The only function that may modify volumes, and only those that opted in."""
        assert self._flip_requests is not None
        function = WatchdogFunction(
            self,
            "Flip",
            handler_name="flip",
            purpose="flips one volume at a time, if it opted in and no guard refuses",
            defaults=self._function_defaults,
            sizing=_FLIP,
            environment={"BURSTWATCH_FLIP_QUEUE_URL": self._flip_requests.queue.queue_url},
            dead_letter_queue=None,
        )
        self._grant_read(function)
        if READ_INSTANCE_TYPES not in self._reads_of_kinds:
            function.allow(READ_INSTANCE_TYPES)
        function.allow(*self._flip_authority_permissions, modify_opted_in(self._policy.opt_in_tag))
        self._flip_requests.deliver_to(function)
        return function

    @property
    def _reads_of_kinds(self) -> list[Permission]:
        """What the kinds of the stage file need, each once."""
        needed = [read for kind in self._stage.resources for read in READS_OF_KINDS.get(kind, ())]
        return list({read.sid: read for read in needed}.values())

    def _grant_read(self, function: WatchdogFunction) -> None:
        function.allow(
            READ_VOLUMES,
            READ_METRICS,
            use_ledger(self._ledger.table_arn, excluded_partitions=SENT_LOG_PARTITIONS),
            read_policy(self._parameters.policy_name, self._parameters.pushed_policy_name),
            *self._alerts.publish_permissions,
        )
        function.allow(*self._reads_of_kinds)

    @property
    def _flip_authority_permissions(self) -> tuple[Permission, ...]:
        """What a function needs to find out whether this deployment or another one may flip."""
        return (
            list_deployments(DEPLOYMENTS_PATH),
            write_parameter_once(self._parameters.origin_parameter_name),
        )

    def _make_notify_function(self) -> WatchdogFunction:
        """The function that delivers alerts to chat channels."""
        recipients, chat_topic = self._stage.recipients, self._alerts.chat_topic
        environment = {}
        if recipients.slack_secret:
            environment["BURSTWATCH_SLACK_SECRET"] = recipients.slack_secret
        if chat_topic:
            environment["BURSTWATCH_CHAT_TOPIC_ARN"] = chat_topic.topic_arn
        function = WatchdogFunction(
            self,
            "Notify",
            handler_name="notify",
            purpose="carries alerts to Slack and to AWS's chat service",
            defaults=self._function_defaults,
            sizing=_NOTIFY,
            environment=environment,
            dead_letter_queue=self._alerts.undelivered_queue,
        )
        function.allow(use_sent_log(self._ledger.table_arn, SENT_LOG_PARTITIONS))
        if recipients.slack_secret:
            function.allow(read_secret(recipients.slack_secret))
        if chat_topic:
            function.allow(publish(chat_topic.topic_arn), *self._alerts.publish_permissions[1:])
        self._alerts.deliver_to(function)
        return function

    def _register_deployment(self) -> None:
        key, value = self._policy.opt_in_tag
        self._parameters.register_deployment(
            {
                "ledger": f"dynamodb:{self._ledger.table_name}",
                "policy": self._parameters.policy_name,
                "topic_arn": self._alerts.topic.topic_arn,
                "flips": self._stage.flips,
                "resources": list(self._stage.resources),
                "opt_in_tag": {"key": key, "value": value},
            }
        )

    def _add_alarms_and_dashboard(self) -> None:
        """Add the alarms, and the dashboard that shows them."""
        name, flip_requests = self._stage.name, self._flip_requests
        alarms = Alarms(
            self,
            "Alarms",
            name=name,
            topic=self._alerts.topic,
            runbook_template=self._policy.runbook_template,
        )
        if self._stage.schedule:
            alarms.add(heartbeat_alarm(self.watch))
        flip_dead_letter_queue = flip_requests.dead_letter_queue if flip_requests else None
        alarms.add(
            *error_alarms(self._functions),
            *throttle_alarms([function for function in (self.watch, self.flip) if function is not None]),
            *dead_letter_alarms(
                events=self._failed_events_queue,
                alerts=self._alerts.undelivered_queue,
                flips=flip_dead_letter_queue,
            ),
            *freshness_alarms(
                name, metric_lag_s=self._policy.metric_lag_s, gap_after_s=self._policy.gap_after_s
            ),
            *dropped_event_alarms(name),
            *([*flip_alarms(name), queue_age_alarm(flip_requests.queue)] if flip_requests else ()),
        )
        if self._stage.lowest_burst_balance_pct is not None:
            alarms.add_backstop(self._stage.lowest_burst_balance_pct)
        if self._stage.dashboard:
            dead_letter_queues = {
                "events": self._failed_events_queue,
                "alerts": self._alerts.undelivered_queue,
            }
            FleetDashboard(
                self,
                "Fleet",
                name=name,
                alarms=alarms.alarms,
                functions=self._functions,
                resources=self._stage.resources,
                dead_letter_queues=dead_letter_queues
                | ({"flips": flip_dead_letter_queue} if flip_dead_letter_queue else {}),
            )

    def _add_tags_and_outputs(self) -> None:
        """Add tags and outputs, and warn if there are no recipients."""
        for key, value in {"project": "burstwatch", **self._stage.tags}.items():
            Tags.of(self).add(key, value)
        add = self._add_output
        add("AlertsTopic", self._alerts.topic.topic_arn, "The topic to which more people can subscribe.")
        add("LedgerTable", self._ledger.table_name, "The table of the ledger, which outlives the stack.")
        add("PolicyParameter", self._parameters.policy_name, "Where Parameter Store has the deployed policy.")
        add("ProbeBus", self.event_rules.probe_bus.event_bus_name, "The event bus to which ddprobe reports.")
        add("ProbePolicy", self.event_rules.probe_policy, "The IAM policy of instances that run ddprobe.")
        add("FailedEventsQueue", self._failed_events_queue.queue_url, "Ticks and events that were given up.")
        add("UndeliveredQueue", self._alerts.undelivered_queue.queue_url, "Alerts that were not delivered.")
        for function in self._functions:
            verb = function.node.id
            add(f"{verb}Function", function.name, f"The function {verb.lower()}.")
            add(f"{verb}Logs", function.log_group_name, f"The log group of {verb.lower()}.")
        if self._flip_requests:
            add("FlipQueue", self._flip_requests.queue.queue_url, "Requests to flip a volume.")
            dead_letters = self._flip_requests.dead_letter_queue.queue_url
            add("DeadFlipsQueue", dead_letters, "Flip requests that could not be processed.")
        if self._alerts.chat_topic:
            topic = self._alerts.chat_topic.topic_arn
            add("ChatTopic", topic, "The topic for Amazon Q Developer in chat applications.")
        if not self._stage.recipients.has_any:
            Annotations.of(self).add_warning_v2(
                "burstwatch:nobody-listens",
                "no one receives the alerts of this stack; name recipients in a stage file"
                " (docs/deploying.md), or subscribe to its AlertsTopic",
            )

    def _add_output(self, name: str, value: str, description: str) -> None:
        output = CfnOutput(self, f"{name}Output", value=value, description=description)
        output.override_logical_id(name)
