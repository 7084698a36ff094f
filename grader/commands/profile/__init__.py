"""``flashdojo profile``: what a kernel costs and why, predicted or recorded. The table of its commands is table.py."""
