"""The chat platforms, over the wire against the sandbox."""
