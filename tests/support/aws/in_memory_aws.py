"""EC2 and CloudWatch in this process, which answer with what they are given, right or wrong."""

from copy import deepcopy
from datetime import UTC, datetime, timedelta

from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.cloudwatch import CloudWatchReader
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Policy
from burstwatch.engine.services import Services

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
NOW_S = NOON.timestamp()
CREATED_AT = NOON - timedelta(days=30)
MINUTES = [NOON - timedelta(minutes=back) for back in range(62, 1, -1)]


def a_described_volume(volume_id, **changes):
    """An entry of DescribeVolumes as botocore gives it."""
    return {
        "VolumeId": volume_id,
        "VolumeType": "gp2",
        "Size": 100,
        "Iops": 300,
        "State": "in-use",
        "CreateTime": CREATED_AT,
        "MultiAttachEnabled": False,
        "Attachments": [
            {
                "InstanceId": f"i-{volume_id[4:]}",
                "VolumeId": volume_id,
                "Device": "/dev/xvda",
                "State": "attached",
                "AttachTime": CREATED_AT,
                "DeleteOnTermination": True,
            }
        ],
        "Tags": [
            {"Key": "Name", "Value": f"name of {volume_id}"},
            {"Key": "burstwatch:mode", "Value": "auto"},
        ],
    } | changes


DRAINING, CALM, SILENT = "vol-0000000000000000a", "vol-0000000000000000b", "vol-0000000000000000c"
GOOD_VOLUMES = [a_described_volume(volume_id) for volume_id in (DRAINING, CALM, SILENT)]
BALANCES = {
    DRAINING: [max(0.0, 100.0 - 1.2 * n) for n in range(len(MINUTES))],
    CALM: [100.0] * len(MINUTES),
    SILENT: [],
}


def a_metric_result(query_id, values):
    return {
        "Id": query_id,
        "Label": "BurstBalance",
        "Timestamps": MINUTES[: len(values)],
        "Values": values,
        "StatusCode": "Complete",
    }


MODIFICATION = {
    "VolumeId": "vol-0000000000000000d",
    "ModificationState": "optimizing",
    "OriginalSize": 100,
    "OriginalIops": 300,
    "OriginalVolumeType": "gp2",
    "TargetSize": 100,
    "TargetIops": 3000,
    "TargetThroughput": 125,
    "TargetVolumeType": "gp3",
    "Progress": 42,
    "StartTime": NOON - timedelta(hours=1),
}
INSTANCE = {
    "InstanceId": "i-0000000000000000c",
    "State": {"Code": 16, "Name": "running"},
    "InstanceType": "m5.large",
}


class CannedAws:
    """EC2 and CloudWatch, which answer with what they were given."""

    def __init__(self, *, volumes=GOOD_VOLUMES, modifications=(), reservations=None, results=None, page=None):
        self.volumes_answer = list(volumes)
        self.modifications_answer = list(modifications)
        self.reservations_answer = reservations
        self.results_answer = results or {}
        self.page = page or (lambda answer: answer)

    def describe_volumes(self, **request):
        return self.page({"Volumes": deepcopy(self.volumes_answer)})

    def describe_volumes_modifications(self, **request):
        return self.page({"VolumesModifications": deepcopy(self.modifications_answer)})

    def describe_instances(self, **request):
        ids = request.get("InstanceIds", [])
        known = [{"Instances": [INSTANCE | {"InstanceId": id_}]} for id_ in ids]
        return self.page(
            {"Reservations": known if self.reservations_answer is None else self.reservations_answer}
        )

    def describe_instance_types(self, **request):
        return self.page({"InstanceTypes": []})

    def get_metric_data(self, **request):
        results = []
        for query in request["MetricDataQueries"]:
            metric = query["MetricStat"]["Metric"]
            volume_id = metric["Dimensions"][0]["Value"]
            is_balance = metric["MetricName"] == "BurstBalance"
            values = BALANCES.get(volume_id, []) if is_balance else [600.0] * len(MINUTES)
            result = a_metric_result(query["Id"], values)
            changed = self.results_answer.get(volume_id)
            results.append(changed | {"Id": query["Id"]} if isinstance(changed, dict) else changed or result)
        return self.page({"MetricDataResults": results})


def services_with(aws, ledger, **options):
    return Services(
        ec2=Ec2Reader(aws),
        cloudwatch=CloudWatchReader(aws, workers=1, sleep=lambda _: None),
        ledger=ledger,
        calls=CallCounter(),
        policy=Policy(),
        location=AwsLocation(region="us-east-1", account="123456789012"),
        **options,
    )
