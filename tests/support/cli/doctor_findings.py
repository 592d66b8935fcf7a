"""What `burstctl doctor` found, read from its JSON."""

import re

from burstlab.fake_aws.faults import Fault

READ_PERMISSIONS = re.compile(r"^[\w-]+:(Describe|Get|List|BatchGet|Query|Simulate)")


def findings_for(result, check, about=None):
    """What a check found, of all or of one thing."""
    findings = [finding for finding in result.document["findings"] if finding["check"] == check]
    return findings if about is None else [finding for finding in findings if finding["about"] == about]


def single_finding(result, check, about=None):
    (finding,) = findings_for(result, check, about)
    return finding


def deny(lab, action):
    """Let AWS refuse this action, in its own words."""
    service, _, operation = action.partition(":")
    code = "UnauthorizedOperation" if service == "ec2" else "AccessDeniedException"
    text = f"User: arn:aws:iam::123456789012:user/ann is not authorized to perform: {action} on resource: *"
    lab.faults.add(Fault(action=operation, code=code, message=text, status=403))
