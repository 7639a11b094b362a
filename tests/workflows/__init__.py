"""Tests of the workflows over a real Temporal server."""
