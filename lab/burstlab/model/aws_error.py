"""A refusal in AWS's words, which the model raises and each protocol writes in its own way."""

from datetime import UTC, datetime


class AwsError(Exception):
    """An error as AWS words it: code, message and HTTP status."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


def iso(at: datetime) -> str:
    """An instant as EC2 and the query protocol write it."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"
