"""A deployed stack, as far as an operator's desk sees one: its card, its policy, its ledger's table."""

import json
from hashlib import sha256

from burstlab.fake_aws.dynamodb import FakeDynamoDb
from burstwatch.adapters.ledger.dynamodb import DynamoLedger

DEFAULT_POLICY = "version: 1\n"


def deploy_stack(lab, name="burstwatch", *, policy=DEFAULT_POLICY, **changes) -> DynamoLedger:
    """Deploy it, or deploy it again, and answer the ledger as its functions see it."""
    table = f"{name}-ledger"
    ssm = lab.client("ssm")
    card = {
        "schema": "burstwatch.deployment/v1",
        "name": name,
        "ledger": f"dynamodb:{table}",
        "policy": f"/burstwatch/{name}/policy",
        "topic_arn": f"arn:aws:sns:{ssm.meta.region_name}:123456789012:{name}",
        "flips": True,
        "opt_in_tag": {"key": "burstwatch:mode", "value": "auto"},
    } | changes
    put_parameter(ssm, f"/burstwatch/deployments/{name}", json.dumps(card))
    put_parameter(ssm, f"/burstwatch/{name}/policy", policy)
    lab.tables.setdefault(table, FakeDynamoDb(table=table))
    return DynamoLedger(lab.client("dynamodb"), table)


def put_parameter(ssm, name, value):
    """As CloudFormation does, which leaves alone what stays the same."""
    held = ssm.get_parameters(Names=[name])["Parameters"]
    if not held or held[0]["Value"] != value:
        ssm.put_parameter(Name=name, Value=value, Type="String", Tier="Intelligent-Tiering", Overwrite=True)


def push_policy(lab, text, *, name="burstwatch", over=DEFAULT_POLICY):
    """What ``burstctl policy push`` leaves behind."""
    digest = sha256(over.encode()).hexdigest()
    put_parameter(
        lab.client("ssm"), f"/burstwatch/{name}/policy-pushed", f"# pushed over sha256:{digest}\n{text}"
    )


def pushed_policy(lab, name="burstwatch") -> str | None:
    """The pushed policy, as AWS has it."""
    held = lab.parameters.parameters("us-east-1").get(f"/burstwatch/{name}/policy-pushed")
    return held.value if held else None
