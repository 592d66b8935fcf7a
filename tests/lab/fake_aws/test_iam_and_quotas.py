"""Whom the lab takes callers for, what they may do, and what its account may have."""

import pytest
from botocore.exceptions import ClientError

CALLER = "arn:aws:iam::111122223333:user/ann"


def test_every_caller_belongs_to_the_lab_account(account_lab):
    reported = account_lab.client("sts").get_caller_identity()

    assert (reported["Account"], reported["Arn"]) == ("111122223333", "arn:aws:sts::111122223333:user/moto")


def test_everything_is_allowed_but_what_is_denied(account_lab):
    account_lab.account.denied_actions.add("sns:Publish")

    reported = account_lab.client("iam").simulate_principal_policy(
        PolicySourceArn=CALLER, ActionNames=["sns:Publish", "ec2:ModifyVolume"], ResourceArns=["*"]
    )

    assert not reported["IsTruncated"]
    decided = {
        evaluation["EvalActionName"]: evaluation["EvalDecision"]
        for evaluation in reported["EvaluationResults"]
    }
    assert decided == {"sns:Publish": "implicitDeny", "ec2:ModifyVolume": "allowed"}


def test_the_quotas_of_ebs_are_those_of_a_new_account_until_they_are_changed(account_lab):
    quotas = account_lab.client("service-quotas")
    account_lab.account.quotas["L-D18FCD1D"] = 89.0

    reported = {
        quota["QuotaCode"]: quota["Value"]
        for quota in quotas.list_service_quotas(ServiceCode="ebs")["Quotas"]
    }

    assert (reported["L-D18FCD1D"], reported["L-7A658B76"], reported["L-B3A130E6"]) == (89.0, 50.0, 300_000.0)


def test_what_it_does_not_know_it_refuses(account_lab):
    quotas = account_lab.client("service-quotas")

    with pytest.raises(ClientError, match="NoSuchResourceException"):
        quotas.list_service_quotas(ServiceCode="ec2")
    with pytest.raises(ClientError, match="the lab does not know GetServiceQuota"):
        quotas.get_service_quota(ServiceCode="ebs", QuotaCode="L-D18FCD1D")


def test_other_iam_calls_are_answered_by_moto(account_lab):
    with pytest.raises(ClientError, match="NoSuchEntity"):
        account_lab.client("iam").get_role(RoleName="nobody")
