"""A simulated fleet of gp2 volumes behind an AWS endpoint that real clients can use.

In a test, with a clock that moves by hand::

    fleet = LabFleet(LabClock.manual(datetime(2026, 11, 20, 18, 0, tzinfo=UTC)))
    volume_id = fleet.add(LabVolume(size_gib=100, load="steady:3000"))
    with Endpoint(fleet) as lab:                       # 127.0.0.1, a free port, stopped at the end
        lab.clock.advance(600)                         # ten minutes pass; BurstBalance is 70 now
        lab.client("ec2").describe_volumes()           # boto3; or use lab.url, lab.environment

    from burstlab.fake_aws.faults import Fault
    from burstlab.fake_aws.server import Endpoint
    from burstlab.model.aws_error import AwsError
    from burstlab.model.clock import LabClock
    from burstlab.model.ebs_events import LabEvent
    from burstlab.model.fleet import FleetError, LabFleet
    from burstlab.model.instances.instance import LabInstance
    from burstlab.model.modification import Modification, ModifyRequest, VolumeSpec
    from burstlab.model.settings import LabSettings
    from burstlab.model.volume import LabVolume, MetricFault, Truth

Time. A volume begins at ``starts_at`` (default: the clock's time when it is added) with ``balance_pct``. So
a new fleet has no datapoints until time passes; ``starts_at=now - timedelta(hours=3)`` gives it three hours
of history. ``created_at`` and ``attached_at`` default to 30 days before. ``LabClock(start, speed=60)`` runs
without ``advance``.

Changes of a fleet at any moment: ``set_load(id, "docker-loop", at=None)``, ``set_balance``, ``set_tags``,
``attach``, ``detach``, ``stop_instance``, ``start_instance``, ``remove``, ``set_instance_balance(instance_id,
0, 40)`` (EBSIOBalance%, EBSByteBalance%; otherwise not published), ``hide_metrics(id, from_at=, to_at=)``,
``set_metric_fault(id, MetricFault(status_code="Forbidden"))``, ``set_status(id, "error")``. ``truth(id)`` has
what CloudWatch does not show: credits, demand, served IOPS, when the bucket was empty, and the stalled time.
``LabSettings`` has the publication delay, the open minute, what large volumes publish, and whether demand
that cannot be served is lost or queued.

Modifications follow EC2's rules, whether they come from boto3 or from ``modify(id, volume_type="gp3",
iops=4_000)``, which stands for others (the console, Terraform) and raises AwsError if EC2 refuses.
``modifications(id)`` is the whole history, ``end_modification(id, "failed")`` ends the one in progress,
``events`` are the events sent to EventBridge, and ``set_modification(id, Modification(...))`` shows one that
was never made. ``LabSettings`` has what AWS does not document: how long modifications take, when the new
performance applies, what happens to the credits, the wording of refusals, and which events are lost.
``change_settings(modify_outcome="stuck")`` changes it for later modifications.

Faults: ``lab.faults.add(Fault(action="GetMetricData", kind="throttle", times=2))``,
``lab.faults.add(Fault(action="ModifyVolume", kind="reset", after_effect=True, times=1))`` (executed, but the
response is lost), ``Fault(action="ModifyVolume", code="UnauthorizedOperation", status=403,
volume_ids=[id])``, ``lab.faults.set_latency(30)`` (ms), ``lab.faults.clear()``. ``lab.faults.call_counts()``
has the calls by action. Other processes have the same at ``/_lab/`` (``curl $AWS_ENDPOINT_URL/_lab/`` lists
it). ``burstlab loads`` lists the loads.

Other services: ``lab.client("ssm")`` uses the lab's own Parameter Store (``lab.parameters``), and
``lab.tables["ledger"] = FakeDynamoDb(table="ledger")`` adds a table for ``lab.client("dynamodb")``. moto
serves the rest (SNS, STS, PutMetricData, other tables, instance types that the lab does not know). moto has
one state for the whole process; POST ``/moto-api/reset`` empties it.

The rest of AWS, for a real ``cdk deploy`` (``burstlab.deployed``)::

    with LocalAws() as aws, SlackReceiver() as slack, Endpoint(fleet) as lab:
        bootstrap(aws), deploy(aws)                    # the app as it is
        stack = DeployedStack.find(aws, lab)           # its functions and queues
        stack.set_schedule_state(is_on=False), stack.use_lab_endpoint(), stack.set_slack_webhook(slack.url)
        lab.clock.advance(60), stack.forward_events(), stack.tick()
"""
