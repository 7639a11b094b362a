"""Placet as it is deployed: whole processes, started by the commands of the compose file."""
