# flashdojo: exercise=s4-evidence check=s4-evidence.before,s4-evidence.after misconception=evidence-not-the-start also=evidence-not-the-schedule
"""before and after are exchanged."""

from pathlib import Path

Path("profiles/before").rename("profiles/kept")
Path("profiles/after").rename("profiles/before")
Path("profiles/kept").rename("profiles/after")
