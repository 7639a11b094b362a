"""One way to talk to Redis: a short patience, one retry, and a fair queue for few connections."""

import asyncio

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

TIMEOUT_S = 0.25
CONNECTIONS = 16


def connect(url: str) -> Redis:
    """A client that sends nothing before its first command; bound each with `asyncio.timeout(TIMEOUT_S)`."""
    # After a restart of Redis the pooled connections are dead but the server is well: one retry, at once.
    pool = ConnectionPool.from_url(
        url, socket_timeout=None, socket_connect_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 1)
    )
    return Redis.from_pool(pool)


def queue() -> asyncio.Semaphore:
    """First come, first served for the connections; redis-py's own blocking pool lets a waiter starve."""
    return asyncio.Semaphore(CONNECTIONS)
