"""gp2 in a box: a simulated fleet of volumes behind an AWS endpoint that real clients talk to.

In a test, with time moved by hand::

    fleet = LabFleet(LabClock.by_hand(datetime(2026, 11, 20, 18, 0, tzinfo=UTC)))
    volume_id = fleet.add(LabVolume(size_gib=100, load="steady:3000"))
    with Endpoint(fleet) as lab:                       # 127.0.0.1, a free port, stopped at the end
        lab.clock.advance(600)                         # ten minutes pass; BurstBalance is 70 now
        lab.client("ec2").describe_volumes()           # boto3; or use lab.url, lab.environment

    from burstlab.fake_aws.faults import Fault
    from burstlab.fake_aws.protocols import AwsError
    from burstlab.fake_aws.server import Endpoint
    from burstlab.model.clock import LabClock
    from burstlab.model.ebs_events import LabEvent
    from burstlab.model.fleet import FleetError, LabFleet, LabInstance, LabSettings
    from burstlab.model.modification import Modification, Shape, Wanted
    from burstlab.model.volume import LabVolume, MetricFault, Truth

Time. A volume begins at ``starts_at`` (default: the clock's time when it is added) with ``balance_pct``, so
a fresh fleet has no datapoints until time passes; ``starts_at=now - timedelta(hours=3)`` gives it three
hours of past. ``created_at`` and ``attached_at`` default to 30 days before. ``LabClock(start, speed=60)``
runs by itself.

What can be done to a fleet at any moment: ``set_load(id, "docker-loop", at=None)``, ``set_balance``,
``set_tags``, ``attach``, ``detach``, ``stop_instance``, ``start_instance``, ``remove``,
``set_instance_balance(instance_id, 0, 40)`` (EBSIOBalance%, EBSByteBalance%; none are published otherwise),
``hide_metrics(id, from_at=, to_at=)``, ``set_metric_fault(id, MetricFault(status_code="Forbidden"))``,
``set_status(id, "error")``. ``truth(id)`` tells what CloudWatch does not show: credits, demand, served IOPS,
when it ran dry and how long it stalled. ``LabSettings`` chooses the publication lag, the open minute, what
large volumes publish, and whether demand that cannot be served is lost or queued.

Modifications follow EC2's rules, whoever asks: boto3, or ``modify(id, volume_type="gp3", iops=4_000)`` for
others (the console, Terraform), which raises AwsError where EC2 refuses. ``modifications(id)`` is the whole
history, ``end_modification(id, "failed")`` ends the one in progress, ``events`` is what EventBridge was
given, ``set_modification(id, Modification(...))`` shows one that never was. What AWS does not say is in
``LabSettings``: how long they last, when the new performance is felt, what becomes of the credits, how
refusals are worded, which events are lost; ``change_settings(modify_outcome="stuck")`` changes it for those
to come.

Trouble: ``lab.faults.add(Fault(action="GetMetricData", kind="throttle", times=2))``,
``lab.faults.add(Fault(action="ModifyVolume", kind="reset", after_effect=True, times=1))`` (done, but the
answer is lost), ``Fault(action="ModifyVolume", code="UnauthorizedOperation", status=403, volume_ids=[id])``,
``lab.faults.set_latency(30)`` (ms), ``lab.faults.clear()``; ``lab.faults.calls()`` counts calls by action.
From another process the same is at ``/_lab/`` (``curl $AWS_ENDPOINT_URL/_lab/`` lists it). ``burstlab
loads`` lists the loads.

Beside the fleet: ``lab.client("ssm")`` talks to a Parameter Store of the lab itself (``lab.parameters``), and
``lab.tables["ledger"] = DynamoDb(table="ledger")`` gives it a table for ``lab.client("dynamodb")``.

moto answers the rest (SNS, STS, PutMetricData, other tables, instance types the lab does not know, ...);
its state is one per process: POST ``/moto-api/reset`` empties it.

The rest of AWS, for a real ``cdk deploy`` (``burstlab.deployed``)::

    with LocalAws() as aws, SlackReceiver() as slack, Endpoint(fleet) as lab:
        bootstrap(aws), deploy(aws)                    # the app as it is
        stage = DeployedStage.find(aws, lab)           # its functions, by verb
        stage.set_schedule(is_on=False), stage.look_at_the_lab(), stage.tell_slack(slack.url)
        lab.clock.advance(60), stage.tell_events(), stage.tick()
"""
