# flashdojo: exercise=all stage=s1
"""Enters the kernel by the numbers of another architecture, which a filter might not know."""
import ctypes
import mmap
import os

libc = ctypes.CDLL(None)
if os.uname().machine != "x86_64":
    os.abort()
for number in (41, 57, 59, 62):  # socket, fork, execve, kill, as x32
    libc.syscall(0x40000000 + number, 1, 1, 0)
code = mmap.mmap(-1, 4096, prot=7)
code.write(b"\xb8\x02\x00\x00\x00\xcd\x80\xc3")  # mov eax, 2 (fork of i386); int 0x80; ret
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
while True:
    pass
