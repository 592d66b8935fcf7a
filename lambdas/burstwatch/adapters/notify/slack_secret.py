"""The address of a Slack webhook in Secrets Manager; no error contains it."""

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from burstwatch.adapters.aws.errors import AWS_ERRORS, to_aws_failure
from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.core.errors import Problem

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.parameters import SecretsProvider

_MAX_AGE_S: Final = 300
"""How long the address is cached: a rotated one is used after five minutes, without a read per alert."""
_FORMAT_STEP: Final = 'store the webhook\'s address in it, as it is or as {"url": "https://…"}'
_NEXT_STEPS: Final = {
    "ResourceNotFoundException": "make it, or correct its name in the stage's recipients, and deploy again",
    "InvalidRequestException": "if it was deleted, restore it: aws secretsmanager restore-secret",
    "DecryptionFailure": "allow kms:Decrypt on its key to the notify function, and enable the key",
}
"""The next steps for errors that only Secrets Manager returns."""


class WebhookSecret:
    """A secret that holds the address, read again every few minutes, because it may be rotated."""

    def __init__(self, client: Any, secret_id: str) -> None:
        self._client = client
        self._secret_id = secret_id
        self._provider: SecretsProvider | None = None

    def read(self, *, force_refresh: bool = False) -> str:
        """The address as it was stored.

        Raises:
            ChannelError: it could not be read; the message has the next step.
        """
        from aws_lambda_powertools.utilities.parameters.exceptions import (  # noqa: PLC0415 - burstctl has its address from elsewhere
            GetParameterError,
        )

        try:
            secret = self._get_provider().get(self._secret_id, max_age=_MAX_AGE_S, force_fetch=force_refresh)
        except GetParameterError as error:
            raise _to_channel_error(self._secret_id, error.__context__ or error) from None
        return _parse_address(self._secret_id, cast("str | bytes", secret))

    def _get_provider(self) -> "SecretsProvider":
        if self._provider is None:
            from aws_lambda_powertools.utilities.parameters import SecretsProvider  # noqa: PLC0415 - as above

            self._provider = SecretsProvider(boto3_client=self._client)
        return self._provider


def read_webhook_address(client: Any, secret_id: str) -> str:
    """The address, read once and without the libraries of the functions.

    Raises:
        ChannelError: it could not be read; the message has the next step.
    """
    try:
        response = client.get_secret_value(SecretId=secret_id)
    except AWS_ERRORS as error:
        raise _to_channel_error(secret_id, error) from None
    return _parse_address(secret_id, response.get("SecretString", b""))


def _parse_address(secret_id: str, secret: str | bytes) -> str:
    if isinstance(secret, bytes):
        raise _invalid_content(secret_id, "binary")
    text = secret.strip()
    if not text.startswith("{"):
        return text
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise _invalid_content(secret_id, "text that begins like JSON but is not JSON") from None
    address = document.get("url")
    if not isinstance(address, str):
        raise _invalid_content(secret_id, "JSON without a text under url")
    return address.strip()


def _invalid_content(secret_id: str, content: str) -> ChannelError:
    return ChannelError(Problem(f"the secret {secret_id} holds {content}", _FORMAT_STEP), is_permanent=True)


def _to_channel_error(secret_id: str, cause: BaseException) -> ChannelError:
    if not isinstance(cause, AWS_ERRORS):
        message = f"the secret {secret_id} cannot be read ({type(cause).__name__}): please report this"
        return ChannelError(message, is_permanent=True)
    failure = to_aws_failure(cause, f"secretsmanager:GetSecretValue of {secret_id}")
    detailed_failure = replace(failure, next_step=_NEXT_STEPS.get(failure.code, failure.next_step))
    return ChannelError(detailed_failure.problem, is_permanent=not failure.is_transient)
