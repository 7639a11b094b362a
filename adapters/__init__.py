"""Everything else that touches the outside."""
