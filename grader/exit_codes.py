"""The exit codes of the contract: what a shell or a CI job is told."""

PASSED, FAILED, USAGE, BROKEN = 0, 1, 2, 3  # all checks passed, some failed, usage or unreadable, the grader failed
