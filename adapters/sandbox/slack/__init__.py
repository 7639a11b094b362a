"""A loopback Slack: its Web API, Socket Mode, and what its people do and see."""

from adapters.sandbox.slack.records import Channel, Message, Person, Press, Team, View
from adapters.sandbox.slack.world import World

__all__ = ["Channel", "Message", "Person", "Press", "Team", "View", "World"]
