# flashdojo: exercise=s1-softmax stage=s1
"""Calls home by every kind of socket, and listens."""
import socket
import urllib.request


def attack(x=None):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        for family, address in ((socket.AF_INET, ("127.0.0.1", 9)), (socket.AF_INET6, ("::1", 9))):
            for verb in ("connect", "bind"):
                try:
                    with socket.socket(family, kind) as connection:
                        connection.settimeout(0.2)
                        getattr(connection, verb)(address)
                        connection.send(b"hello")
                except OSError:
                    pass
    try:
        urllib.request.urlopen("http://127.0.0.1:9/", timeout=0.2)
    except OSError:
        pass
    return x


attack()


def softmax(x, dim=-1):
    return x
