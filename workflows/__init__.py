"""The life of one approval, and the sweep, on Temporal."""
