"""What checks are made of: drawn cases, tolerances, and the wrong ideas behind wrong values."""
