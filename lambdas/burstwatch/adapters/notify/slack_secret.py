"""The address of a Slack webhook, kept in Secrets Manager; it never stands in an error."""

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from burstwatch.adapters.aws.errors import AWS_ERRORS, FailureKind, explain
from burstwatch.adapters.notify.channel import ChannelError

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.parameters import SecretsProvider

_MAX_AGE_S: Final = 300
_PASSING: Final = (FailureKind.RETRYABLE, FailureKind.UNREACHABLE)
_FORMS: Final = 'store the webhook\'s address in it, as it is or as {"url": "https://…"}'
_NEXT_STEPS: Final = {
    "ResourceNotFoundException": "make it, or correct its name in the stage's recipients, and deploy again",
    "InvalidRequestException": "if it was deleted, restore it: aws secretsmanager restore-secret",
    "DecryptionFailure": "allow kms:Decrypt on its key to the notify function, and enable the key",
}
"""For the errors that only Secrets Manager gives."""


class WebhookSecret:
    """A secret that holds the address, read again every few minutes; it may be rotated at any time."""

    def __init__(self, client: Any, secret_id: str) -> None:
        self._client = client
        self._secret_id = secret_id
        self._provider: SecretsProvider | None = None

    def read(self, *, afresh: bool = False) -> str:
        """The address, as it was stored.

        Raises:
            ChannelError: there is none to be had, with the next step.
        """
        from aws_lambda_powertools.utilities.parameters.exceptions import (  # noqa: PLC0415 - burstctl has its address from elsewhere
            GetParameterError,
        )

        try:
            held = self._secrets().get(self._secret_id, max_age=_MAX_AGE_S, force_fetch=afresh)
        except GetParameterError as error:
            raise self._refusal(error.__context__ or error) from None
        return self._address(cast("str | bytes", held))

    def _secrets(self) -> "SecretsProvider":
        if self._provider is None:
            from aws_lambda_powertools.utilities.parameters import SecretsProvider  # noqa: PLC0415 - as above

            self._provider = SecretsProvider(boto3_client=self._client)
        return self._provider

    def _address(self, held: str | bytes) -> str:
        if isinstance(held, bytes):
            raise self._useless("binary")
        text = held.strip()
        if not text.startswith("{"):
            return text
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            raise self._useless("text that begins like JSON and is none") from None
        address = document.get("url")
        if not isinstance(address, str):
            raise self._useless("JSON without a text under url")
        return address.strip()

    def _useless(self, what: str) -> ChannelError:
        return ChannelError(f"the secret {self._secret_id} holds {what}: {_FORMS}", is_permanent=True)

    def _refusal(self, cause: BaseException) -> ChannelError:
        if not isinstance(cause, AWS_ERRORS):
            message = (
                f"the secret {self._secret_id} cannot be read ({type(cause).__name__}): please report this"
            )
            return ChannelError(message, is_permanent=True)
        failure = explain(cause, f"secretsmanager:GetSecretValue of {self._secret_id}")
        told = replace(failure, next_step=_NEXT_STEPS.get(failure.code, failure.next_step))
        return ChannelError(str(told), is_permanent=failure.kind not in _PASSING)
