"""Tests of what deploy/ holds."""
