"""The definition for the CDK, synthesized by the CDK itself."""

import pytest

from burstctl.advise.iac import IacKind, render_definition
from burstctl.advise.rightsizing import AdviceInput, advise
from burstwatch.core.ebs.pricing import US_EAST_1, VolumeType
from support.builders.core_values import a_volume


@pytest.mark.xdist_group("synthesized stacks")  # whose worker has started the CDK already
def test_the_cdk_output_matches_the_cloudformation_output():
    cdk = pytest.importorskip("aws_cdk")
    from aws_cdk import assertions, aws_ec2  # noqa: PLC0415 - heavy, and only here

    volume = a_volume(tags={"Name": "build-3"})
    advice = advise(
        AdviceInput(
            volume=volume, usage=None, prices=US_EAST_1, is_critical=False, critical_type=VolumeType.IO2
        )
    )
    stack = cdk.Stack()
    names = {"ec2": aws_ec2, "Size": cdk.Size, "self": stack, "zone": "us-east-1a"}
    exec(render_definition(advice, IacKind.CDK), names)
    assertions.Template.from_stack(stack).has_resource_properties(
        "AWS::EC2::Volume", {"VolumeType": "gp3", "Iops": 3000, "Throughput": 128, "Size": 100}
    )
