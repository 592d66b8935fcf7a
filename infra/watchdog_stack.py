"""The watchdog as a stack: which part does what, who may do it, and who hears of it."""

from typing import Final

from aws_cdk import Annotations, CfnOutput, Environment, Stack, Tags
from aws_cdk.aws_iam import IManagedPolicy, ManagedPolicy, PermissionsBoundary
from aws_cdk.aws_sqs import IQueue
from constructs import Construct

from infra.alarms import (
    Alarms,
    dropped,
    failures_of,
    flips_gone_wrong,
    lost,
    silence,
    throttles_of,
    unseen,
    untaken,
)
from infra.config import StageConfig
from infra.dashboard import FleetDashboard
from infra.events import Hints
from infra.functions import Shared, Sizing, WatchdogFunction, share
from infra.ledger import LedgerTable
from infra.messaging import Alerts, FlipRequests, make_dead_letters
from infra.metrics import NAMESPACE
from infra.parameters import DEPLOYMENTS_PATH, Parameters
from infra.permissions import (
    READ_INSTANCE_TYPES,
    READ_METRICS,
    READ_VOLUMES,
    list_deployments,
    modify_opted_in,
    publish,
    read_policy,
    read_secret,
    remember_what_was_sent,
    use_ledger,
    write_once,
)
from infra.policy import DeployedPolicy
from infra.schedule import Schedule

SENT: Final = "sent*"
"""The part of the ledger's table in which notify remembers what it sent."""

_WATCH: Final = Sizing(memory_mib=1769, timeout_s=300)
_FLIP: Final = Sizing(memory_mib=512, timeout_s=50)
_SETTLE: Final = Sizing(memory_mib=512, timeout_s=30)
_NOTIFY: Final = Sizing(memory_mib=256, timeout_s=60, retries=2, most_age_s=3600)


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
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            stack_name=stage.name,
            env=env,
            description="burstwatch: knows when gp2 volumes run dry before they do",
        )
        self._stage = stage
        self._policy = policy
        self._ledger = LedgerTable(self, "LedgerTable", existing=stage.ledger).table
        self._parameters = Parameters(self, "Parameters", name=stage.name)
        self._parameters.put_policy(policy.document)
        self._alerts = Alerts(
            self, "Alerts", name=stage.name, emails=stage.recipients.emails, chat=stage.recipients.chat
        )
        self._failures = make_dead_letters(self, "FailedEvents")
        self._flip_requests = (
            FlipRequests(self, "FlipRequests", timeout_s=_FLIP.timeout_s) if stage.flips else None
        )
        self._shared = self._share()
        self.watch = self._looking(
            "Watch", "watch", "looks at volumes, decides and alerts", _WATCH, self._failures
        )
        self.settle = self._looking("Settle", "settle", "follows what happens to volumes", _SETTLE)
        self.flip = self._make_flip() if self._flip_requests else None
        self.notify = self._make_notify()
        self.hints = Hints(
            self,
            "Hints",
            settle=self.settle,
            probe_bus_name=f"{stage.name}-probe",
            failures=self._failures,
        )
        if stage.schedule:
            Schedule(
                self,
                "Schedule",
                watch=self.watch,
                sweep_minutes=policy.sweep_minutes,
                failures=self._failures,
            )
        self._announce()
        self._watch_ourselves()
        self._tell()
        if stage.permissions_boundary:
            PermissionsBoundary.of(self).apply(self._boundary(stage.permissions_boundary))

    def _boundary(self, policy: str) -> IManagedPolicy:
        """The policy that bounds every role, by ARN or by the name that it has in this account."""
        if policy.startswith("arn:"):
            return ManagedPolicy.from_managed_policy_arn(self, "Boundary", policy)
        return ManagedPolicy.from_managed_policy_name(self, "Boundary", policy)

    @property
    def _functions(self) -> list[WatchdogFunction]:
        return [each for each in (self.watch, self.flip, self.settle, self.notify) if each is not None]

    def _share(self) -> Shared:
        """What every function is told, and made of."""
        name = self._stage.name
        return share(
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

    def _looking(
        self, construct_id: str, verb: str, does: str, sizing: Sizing, failures: IQueue | None = None
    ) -> WatchdogFunction:
        """A function that looks at volumes and may ask for flips, but never makes one.

        Without ``failures`` nothing invokes it asynchronously.
        """
        asks = {}
        if self._flip_requests:
            asks["BURSTWATCH_FLIP_QUEUE_URL"] = self._flip_requests.queue.queue_url
        function = WatchdogFunction(
            self,
            construct_id,
            verb=verb,
            does=does,
            shared=self._shared,
            sizing=sizing,
            environment=asks,
            failures=failures,
        )
        self._let_look(function)
        if self._flip_requests:
            function.allow(self._flip_requests.send_permission)
        return function

    def _make_flip(self) -> WatchdogFunction:
        """The only function that may modify, and only volumes that opted in."""
        assert self._flip_requests is not None
        function = WatchdogFunction(
            self,
            "Flip",
            verb="flip",
            does="flips one volume at a time, if it opted in and no guard refuses",
            shared=self._shared,
            sizing=_FLIP,
            environment={"BURSTWATCH_FLIP_QUEUE_URL": self._flip_requests.queue.queue_url},
            failures=None,
        )
        self._let_look(function)
        function.allow(READ_INSTANCE_TYPES, modify_opted_in(self._policy.opt_in_tag))
        self._flip_requests.deliver_to(function)
        return function

    def _let_look(self, function: WatchdogFunction) -> None:
        function.allow(
            READ_VOLUMES,
            READ_METRICS,
            use_ledger(self._ledger.table_arn, others=SENT),
            read_policy(self._parameters.policy_name, self._parameters.pushed_policy_name),
            list_deployments(DEPLOYMENTS_PATH),
            *self._alerts.publish_permissions,
        )
        if self._stage.flips:
            function.allow(write_once(self._parameters.origin_name))

    def _make_notify(self) -> WatchdogFunction:
        """The function that carries alerts to where people are."""
        recipients, chat_topic = self._stage.recipients, self._alerts.chat_topic
        environment = {}
        if recipients.slack_secret:
            environment["BURSTWATCH_SLACK_SECRET"] = recipients.slack_secret
        if chat_topic:
            environment["BURSTWATCH_CHAT_TOPIC_ARN"] = chat_topic.topic_arn
        function = WatchdogFunction(
            self,
            "Notify",
            verb="notify",
            does="carries alerts to Slack and to AWS's chat service",
            shared=self._shared,
            sizing=_NOTIFY,
            environment=environment,
            failures=self._alerts.undelivered,
        )
        function.allow(remember_what_was_sent(self._ledger.table_arn, SENT))
        if recipients.slack_secret:
            function.allow(read_secret(recipients.slack_secret))
        if chat_topic:
            function.allow(publish(chat_topic.topic_arn), *self._alerts.publish_permissions[1:])
        self._alerts.deliver_to(function)
        return function

    def _announce(self) -> None:
        key, value = self._policy.opt_in_tag
        self._parameters.announce(
            {
                "ledger": f"dynamodb:{self._ledger.table_name}",
                "policy": self._parameters.policy_name,
                "topic_arn": self._alerts.topic.topic_arn,
                "flips": self._stage.flips,
                "opt_in_tag": {"key": key, "value": value},
            }
        )

    def _watch_ourselves(self) -> None:
        """Alarms, and the page that shows them."""
        name, flips = self._stage.name, self._flip_requests
        alarms = Alarms(
            self,
            "Alarms",
            name=name,
            topic=self._alerts.topic,
            runbooks_url=self._policy.runbooks_url,
        )
        if self._stage.schedule:
            alarms.add(silence(self.watch))
        dead_flips = flips.dead_letters if flips else None
        alarms.add(
            *failures_of(self._functions),
            *throttles_of([each for each in (self.watch, self.flip) if each is not None]),
            *lost(events=self._failures, alerts=self._alerts.undelivered, flips=dead_flips),
            *unseen(name, metric_lag_s=self._policy.metric_lag_s, gap_after_s=self._policy.gap_after_s),
            *dropped(name),
            *([*flips_gone_wrong(name), untaken(flips.queue)] if flips else ()),
        )
        if self._stage.lowest_burst_balance_pct is not None:
            alarms.add_net(self._stage.lowest_burst_balance_pct)
        if self._stage.dashboard:
            failures = {"events": self._failures, "alerts": self._alerts.undelivered}
            FleetDashboard(
                self,
                "Fleet",
                name=name,
                alarms=alarms.alarms,
                functions=self._functions,
                failures=failures | ({"flips": dead_flips} if dead_flips else {}),
            )

    def _tell(self) -> None:
        """What whoever deploys should know: tags, outputs, and that nobody listens."""
        for key, value in {"project": "burstwatch", **self._stage.tags}.items():
            Tags.of(self).add(key, value)
        outputs = {
            "AlertsTopic": self._alerts.topic.topic_arn,
            "LedgerTable": self._ledger.table_name,
            "PolicyParameter": self._parameters.policy_name,
            "ProbeBus": self.hints.probe_bus.event_bus_name,
            "ProbePolicy": self.hints.probe_policy,
            "FailedEventsQueue": self._failures.queue_url,
            "UndeliveredQueue": self._alerts.undelivered.queue_url,
            **{f"{each.node.id}Function": each.name for each in self._functions},
            **{f"{each.node.id}Logs": each.log_group_name for each in self._functions},
        }
        if self._flip_requests:
            outputs["FlipQueue"] = self._flip_requests.queue.queue_url
            outputs["DeadFlipsQueue"] = self._flip_requests.dead_letters.queue_url
        if self._alerts.chat_topic:
            outputs["ChatTopic"] = self._alerts.chat_topic.topic_arn
        for output, value in outputs.items():
            CfnOutput(self, f"{output}Output", value=value).override_logical_id(output)
        if not self._stage.recipients.is_anybody:
            Annotations.of(self).add_warning_v2(
                "burstwatch:nobody-listens",
                "nobody receives the alerts of this stack; name recipients in a stage file"
                " (docs/deploying.md), or subscribe to its AlertsTopic",
            )
