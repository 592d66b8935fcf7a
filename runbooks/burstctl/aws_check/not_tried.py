"""What is not established and is not tried, and why not."""

from typing import Final, NamedTuple


class NotTried(NamedTuple):
    """A question that a run leaves open."""

    name: str
    reason: str


NOT_TRIED: Final = (
    NotTried(
        "performance while a modification is modifying", "takes a calibrated load for hours, and varies"
    ),
    NotTried(
        "when new IOPS are felt", "takes a calibrated load too; one volume in one zone would say little"
    ),
    NotTried("whether failed modifications count", "AWS cannot be made to fail one"),
    NotTried(
        "the error for a volume that a service manages",
        "needs a service such as EKS Auto Mode with its cluster",
    ),
    NotTried("the event of a modification that failed", "AWS cannot be made to fail one"),
    NotTried(
        "a modification record's life beyond an hour",
        "a run that waits for days needs a machine that does too",
    ),
    NotTried(
        "ExceededCheck metrics of gp2 while it bursts",
        "needs a load held above one limit and below another; not built",
    ),
    NotTried(
        "whether Metrics Insights queries bill per metric", "shows on the bill a day later, not in an API"
    ),
    NotTried("CDK and CloudFormation support for the alarm parameters of 2026", "no question to an account"),
    NotTried(
        "whether the bucket of small st1 and sc1 volumes follows size",
        "cheap enough, but not built: 80 min of sequential reads; burstwatch watches gp2 only",
    ),
    NotTried(
        "whether detailed monitoring ends EBSIOBalance%",
        "cheap enough, but not built: burstwatch never turns it on, and takes a gap there as unknown",
    ),
    NotTried("when the daily reset of an instance's buckets falls", "takes more than a day"),
    NotTried("RDS: whether a small class caps the burst; older multi-AZ types", "an RDS instance for hours"),
    NotTried("EFS: earning at the 1 MiB/s floor; leaving elastic mode within 24 h", "takes more than a day"),
)
