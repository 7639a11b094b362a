"""One way to talk to Redis: few connections, a short patience, one retry."""

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

TIMEOUT_S = 0.25


def connect(url: str, connections: int) -> Redis:
    """A client with at most `connections` at once; callers queue for one. Nothing is sent before the first command.

    Callers bound each command with `asyncio.timeout(TIMEOUT_S)`, which covers the queue, the connecting and the answer.
    """
    # After a restart of Redis the pooled connections are dead but the server is well: one retry, at once.
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=connections,
        timeout=None,
        socket_timeout=None,
        socket_connect_timeout=TIMEOUT_S,
        retry=Retry(NoBackoff(), 1),
    )
    return Redis.from_pool(pool)
