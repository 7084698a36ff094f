"""Checks run on programs and added up to results: one program, a folder, a desk that stays open."""
