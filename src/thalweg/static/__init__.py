"""Static data: background graphs that queries join with streams."""
