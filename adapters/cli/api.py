"""The HTTP API as the command line calls it; what goes wrong ends the command with one line."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from typing import Any, NoReturn
from urllib.parse import quote, urlsplit

import httpx
from pydantic import SecretStr

from adapters.cli.context import fail
from adapters.settings import ADMIN_TOKEN_FILE, Settings, stored_admin_token
from core.ports import BadSetting

TIMEOUT = httpx.Timeout(30.0, connect=5.0)
WITH_A_PERSONS = "make a person's token with `placet token PERSON` and set PLACET_TOKEN"
ANSWER_WITH_A_PERSON = f"the admin token cannot answer an approval: {WITH_A_PERSONS}"
# What the API says in the words of HTTP, in those of the command line.
IN_COMMANDS = {
    "needs_person": f"this is no person's token, so it cannot answer or edit an approval: {WITH_A_PERSONS}",
    "needs_admin": "this token administers nothing: unset PLACET_TOKEN for this machine's admin token, or set it to "
    "that of a person whose role has admin",
    "not_found": "no approval has this id: `placet approvals --status all` lists those you may see",
    "unknown_rule": "no rule has this id: `placet rules AGENT` lists an agent's rules with theirs",
}


class Api:
    """One server and one bearer token. `administers` where the token is this machine's admin token."""

    def __init__(self, url: str, token: SecretStr, *, administers: bool) -> None:
        self.url, self.administers = url, administers
        self._client = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token.get_secret_value()}", "Placet-Client": "cli"},
            timeout=TIMEOUT,
            # A proxy of the environment cannot reach this machine's own address.
            trust_env=not _is_loopback(url),
        )

    @classmethod
    def of(cls, settings: Settings) -> Api:
        """With PLACET_TOKEN, else the admin token."""
        if settings.token is not None:
            return cls(settings.http_url, settings.token, administers=False)
        try:
            token = settings.admin_token or stored_admin_token(settings)
        except BadSetting as bad:
            fail(str(bad))
        if token is None:
            fail(
                f"no token: set PLACET_TOKEN (there is no readable {settings.data_dir / ADMIN_TOKEN_FILE}, which "
                "`placet serve` makes at its first start); for a demo, read its demo.env first"
            )
        return cls(settings.http_url, token, administers=True)

    def get(self, path: str, **query: str | None) -> Any:
        return self._call("GET", path, params=_said(query))

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return self._call("POST", path) if body is None else self._call("POST", path, json=body)

    def put(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._call("PUT", path, json=body)

    def delete(self, path: str) -> Any:
        return self._call("DELETE", path)

    def put_file(self, path: str, name: str, text: str, **query: str | None) -> Any:
        """Send a YAML file; what is wrong in it is told as `name:line`."""
        headers = {"Content-Type": "application/yaml"}
        return self._call("PUT", path, told_as=name, content=text.encode(), headers=headers, params=_said(query))

    def _call(self, method: str, path: str, *, told_as: str = "", **request: Any) -> Any:
        try:
            response = self._client.request(method, path, **request)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            fail(f"Placet cannot be reached at {self.url}: start it with `placet serve`, or set PLACET_URL")
        except httpx.HTTPError as error:
            unsure = "" if method == "GET" else "; it may have been done all the same, so look before you repeat it"
            fail(f"no answer from {self.url} ({type(error).__name__}){unsure}")
        if not response.is_success:
            self._refuse(response, told_as)
        try:
            return response.json()
        except ValueError:
            fail(f"what answers at {self.url} is not Placet: set PLACET_URL to where Placet listens")

    def _refuse(self, response: httpx.Response, told_as: str) -> NoReturn:
        """End the command with what the problem document says."""
        try:
            problem = response.json()
            code, detail, line = problem["code"], str(problem["detail"]), problem.get("line")
        except (ValueError, KeyError, TypeError):
            fail(f"what answers at {self.url} is not Placet ({response.status_code} without a reason; a demo's page is "
                 "not its API): set PLACET_URL to where Placet listens, or read the demo's demo.env")  # fmt: skip
        if code in IN_COMMANDS:
            fail(IN_COMMANDS[code])
        fail(f"{told_as}:{line}: {detail.removeprefix(f'line {line}: ')}" if told_as and line else detail)


def path_of(*parts: str) -> str:
    """A path of the API; the parts are escaped."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def _said(query: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in query.items() if value is not None}


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
