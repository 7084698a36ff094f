"""A course in nbgrader: its folder, its source notebooks, and the judge in the place where nbgrader runs notebooks.

nbgrader's commands and pages stay as they are; :mod:`grader.classroom.config` is what ``nbgrader_config.py`` calls.
"""
