"""Many submissions at once: found, graded side by side or on a cluster, and kept."""
