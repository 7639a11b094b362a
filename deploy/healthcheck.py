"""Exit code 0 when the Placet of this container answers at /healthz of PLACET_HTTP_BIND, else 1 and one line."""

import http.client
import os
import sys

TIMEOUT_S = 4.0
# An address to listen on everywhere is none to call.
ANYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


def main() -> int:
    host, _, port = os.environ.get("PLACET_HTTP_BIND", "127.0.0.1:8420").rpartition(":")
    host = host.strip("[]")
    try:
        connection = http.client.HTTPConnection(ANYWHERE.get(host, host), int(port), timeout=TIMEOUT_S)
        connection.request("GET", "/healthz")
        status = connection.getresponse().status
    except (OSError, ValueError, http.client.HTTPException) as error:
        sys.stderr.write(f"no answer at /healthz ({type(error).__name__})\n")
        return 1
    if status != http.client.OK:
        sys.stderr.write(f"/healthz answered {status}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
