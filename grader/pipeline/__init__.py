"""Grading in somebody's CI: the pipeline that is written once, and the step that it runs at every push."""
