"""Whom the lab takes callers for, what they may do, and what its account may have."""

from datetime import UTC, datetime

import pytest
from botocore.exceptions import ClientError

from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings

CALLER = "arn:aws:iam::111122223333:user/ann"


@pytest.fixture(scope="module")
def lab():
    clock = LabClock(datetime(2026, 11, 20, 18, 0, tzinfo=UTC), speed=0)
    with Endpoint(LabFleet(clock, LabSettings(account_id="111122223333"))) as endpoint:
        yield endpoint


def test_every_caller_belongs_to_the_lab_account(lab):
    reported = lab.client("sts").get_caller_identity()

    assert (reported["Account"], reported["Arn"]) == ("111122223333", "arn:aws:sts::111122223333:user/moto")


def test_everything_is_allowed_but_what_is_denied(lab):
    lab.account.denied_actions.add("sns:Publish")

    reported = lab.client("iam").simulate_principal_policy(
        PolicySourceArn=CALLER, ActionNames=["sns:Publish", "ec2:ModifyVolume"], ResourceArns=["*"]
    )

    assert not reported["IsTruncated"]
    decided = {
        evaluation["EvalActionName"]: evaluation["EvalDecision"]
        for evaluation in reported["EvaluationResults"]
    }
    assert decided == {"sns:Publish": "implicitDeny", "ec2:ModifyVolume": "allowed"}


def test_the_quotas_of_ebs_are_those_of_a_new_account_until_they_are_changed(lab):
    quotas = lab.client("service-quotas")
    lab.account.quotas["L-D18FCD1D"] = 89.0

    reported = {
        quota["QuotaCode"]: quota["Value"]
        for quota in quotas.list_service_quotas(ServiceCode="ebs")["Quotas"]
    }

    assert (reported["L-D18FCD1D"], reported["L-7A658B76"], reported["L-B3A130E6"]) == (89.0, 50.0, 300_000.0)


def test_what_it_does_not_know_it_refuses(lab):
    quotas = lab.client("service-quotas")

    with pytest.raises(ClientError, match="NoSuchResourceException"):
        quotas.list_service_quotas(ServiceCode="ec2")
    with pytest.raises(ClientError, match="the lab does not know GetServiceQuota"):
        quotas.get_service_quota(ServiceCode="ebs", QuotaCode="L-D18FCD1D")


def test_other_iam_calls_are_answered_by_moto(lab):
    with pytest.raises(ClientError, match="NoSuchEntity"):
        lab.client("iam").get_role(RoleName="nobody")
