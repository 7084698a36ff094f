"""A submission as source: cells, what they define, and what they may not use."""
