"""What is made of a result document: pages for a learner and for the class, tables for a gradebook, XML for CI.

Everything is read from the document; only the code that a page shows comes from the submission itself, when the file is
still the one that was graded.
"""

from __future__ import annotations

from grader.reports.write import Written, write_reports

__all__ = ["Written", "write_reports"]
