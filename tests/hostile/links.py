# flashdojo: exercise=s1-softmax stage=s1
"""Leaves links to other people's files, pipes, sockets and unreadable folders in its folder."""
import os
import socket


def attack(x=None):
    for make in (
        lambda: os.symlink("/etc/passwd", "link"), lambda: os.symlink("/", "root"), lambda: os.mkfifo("pipe"), lambda: os.link("/etc/hostname", "hard"),
        lambda: os.makedirs("a/" * 200), lambda: os.mkdir("locked", 0o000), lambda: os.mknod("device"), lambda: open("x" * 200, "w").close(),
        lambda: socket.socket(socket.AF_UNIX).bind("sock"), lambda: os.chmod(".", 0o000),
    ):
        try:
            make()
        except OSError:
            pass
    return x


attack()


def softmax(x, dim=-1):
    return x
