"""One file per chat platform."""
