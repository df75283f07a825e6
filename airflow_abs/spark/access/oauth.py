"""Tokens that a service gives a program for its id and secret: the client credentials grant of OAuth 2.0."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote_plus, urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener

from airflow_abs.spark.access.tokens import ANSWER_SECONDS
from airflow_abs.spark.errors import TokenUnavailableError

_LONGEST_ANSWER = 64 * 1024


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """A token source: the grant of RFC 6749, section 4.4, with id and secret as in its section 2.3.1.

    Args:
        url: the service's token endpoint.
        client_id: who asks.
        secret: its secret.
        scope: what the token is for.
        lifetime: seconds that a token is good for, where the answer does not say so.
    """

    url: str
    client_id: str
    secret: str = field(repr=False)
    scope: str
    lifetime: float = 3600.0

    def fetch(self) -> object:
        known = base64.b64encode(f"{quote_plus(self.client_id)}:{quote_plus(self.secret)}".encode()).decode()
        body = urlencode({"grant_type": "client_credentials", "scope": self.scope}).encode()
        request = Request(self.url, body, {"Authorization": f"Basic {known}", "Accept": "application/json"})  # noqa: S310
        try:
            with build_opener(_StaysThere).open(request, timeout=ANSWER_SECONDS) as answer:
                return answer.read(_LONGEST_ANSWER).decode()
        except HTTPError as error:
            with error:
                found = f"it answers {error.code} to client {self.client_id!r}"
        except (URLError, OSError, UnicodeDecodeError) as error:
            found = f"{getattr(error, 'reason', error)}"
        raise TokenUnavailableError(
            f"{self.url} gave no token for the Spark server: {found}; correct host, login or password of the connection"
        )


class _StaysThere(HTTPRedirectHandler):
    """The secret goes to no other address than the one that was named."""

    def redirect_request(self, *_: Any) -> None:
        return None
