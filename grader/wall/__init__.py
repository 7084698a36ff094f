"""The judge's side of the wall: workers forked, asked, watched and buried. The other side is ``grader.worker``."""
