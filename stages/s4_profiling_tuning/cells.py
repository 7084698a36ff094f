"""Code cells of stage 4's notebook that are given: pictures, and what one tries out after passing.

``# %% EXERCISE ROLE`` starts a cell. Roles: picture (runs without any answer), given (part of the program that is
graded), given-check (uses the answers; not graded). ``# zh:`` and ``# en:`` comments are kept for one language.
"""
# ruff: noqa: E402, F821
