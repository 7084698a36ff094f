# flashdojo: exercise=s4-evidence check=s4-evidence.after misconception=evidence-unreadable
"""There is a profile before, and none after."""

import shutil

shutil.rmtree("profiles/after")
