"""Is what an exercise forbids found in its source, by whatever route, and is honest code left alone?"""

from __future__ import annotations

import ast
import textwrap
import time
from pathlib import Path

import pytest

from grader.course import catalog
from grader.reading.policy import Policy
from grader.reading.source import Source
from grader.reading.submission import Cell, Program

NAMES = {
    "softmax": ("softmax", ("numpy", "threads", "library_attention", "softmax")),
    "attention": ("scaled_dot_product_attention", ("numpy", "threads", "library_attention")),
    "forward": ("flash_attention_forward", ("numpy", "threads", "library_attention")),
    "backward": ("flash_attention_backward", ("numpy", "threads", "library_attention", "autograd")),
    "function": ("FlashAttentionFunction", ("numpy", "threads", "library_attention", "autograd")),
    "module": ("StandardAttention", ("numpy", "threads", "library_attention")),
}


def program(*cells: str) -> Program:
    sources = [textwrap.dedent(cell).strip("\n") for cell in cells]
    return Program(Path("x"), "0" * 64, [Cell(n, s, tree=ast.parse(s)) for n, s in enumerate(sources, 1)])


def rules(exercise: str, *cells: str) -> list[str]:
    name, forbid = NAMES[exercise]
    return [violation.rule for violation in Policy(Source(program(*cells))).violations(name, forbid)]


SDPA = "scaled_dot_product_attention"
CHEATS = {
    "attribute chain": ("library_attention", "forward", """
        import torch
        def flash_attention_forward(q, k, v):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)
        """),
    "imported under another name": ("library_attention", "forward", """
        from torch.nn.functional import scaled_dot_product_attention as f
        def flash_attention_forward(q, k, v):
            return f(q, k, v)
        """),
    "imported inside the function": ("library_attention", "forward", """
        def flash_attention_forward(q, k, v):
            from torch.nn import functional as G
            return G.scaled_dot_product_attention(q, k, v)
        """),
    "alias of a module": ("library_attention", "forward", """
        import torch
        t = torch
        F = t.nn.functional
        def flash_attention_forward(q, k, v):
            return F.scaled_dot_product_attention(q, k, v)
        """),
    "local alias of a module": ("library_attention", "forward", """
        import torch
        def flash_attention_forward(q, k, v):
            F = torch.nn.functional
            g = F
            return g.scaled_dot_product_attention(q, k, v)
        """),
    "getattr with a constant": ("library_attention", "forward", """
        import torch.nn.functional as F
        sdpa = getattr(F, "scaled_dot_product_attention")
        def flash_attention_forward(q, k, v):
            return sdpa(q, k, v)
        """),
    "getattr with a glued constant": ("library_attention", "forward", """
        import torch.nn.functional as F
        def flash_attention_forward(q, k, v):
            return getattr(F, "scaled_dot" + "_product_attention")(q, k, v)
        """),
    "getattr with a joined constant": ("library_attention", "forward", """
        import torch.nn.functional as F
        def flash_attention_forward(q, k, v):
            return getattr(F, "_".join(["scaled", "dot", "product", "attention"]))(q, k, v)
        """),
    "a tensor of one's own kind": ("escape", "forward", """
        import torch
        class Curtain(torch.Tensor):
            pass
        def flash_attention_forward(q, k, v):
            return q.as_subclass(Curtain) + 1
        """),
    "what a tensor of one's own kind does unseen": ("escape", "forward", """
        import torch
        Base = torch.Tensor
        class Curtain(Base):
            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                return naive(*args)
        def flash_attention_forward(q, k, v):
            return Curtain() + 1
        """),
    "a guard among torch's private parts": ("escape", "forward", """
        from torch.utils._mode_utils import no_dispatch
        def flash_attention_forward(q, k, v):
            with no_dispatch():
                return q @ k.mT @ v
        """),
    "a module held by another": ("escape", "forward", """
        import torch.serialization as s
        def flash_attention_forward(q, k, v):
            return s.sys.modules
        """),
    "a name put together at run time": ("escape", "forward", """
        import torch
        def flash_attention_forward(q, k, v):
            return getattr(torch, "_" + chr(67))
        """),
    "a name put together at module level": ("escape", "forward", """
        import torch
        core = f"_{chr(67)}"
        def flash_attention_forward(q, k, v):
            return getattr(torch, core)
        """),
    "a module held under a private name": ("escape", "forward", """
        import collections
        def flash_attention_forward(q, k, v):
            return collections._sys.modules
        """),
    "a special name put together for a thing that cannot be told": ("escape", "forward", """
        def flash_attention_forward(q, k, v):
            return getattr(q, chr(95) * 2 + k)
        """),
    "a template for special names": ("escape", "forward", """
        def flash_attention_forward(q, k, v):
            name = "__%s__" % k
            return q
        """),
    "a lookup by operator": ("escape", "forward", """
        from operator import attrgetter
        def flash_attention_forward(q, k, v):
            return attrgetter(k)(q)
        """),
    "getattr handed on": ("escape", "forward", """
        from functools import reduce
        def flash_attention_forward(q, k, v):
            return reduce(getattr, k, q)
        """),
    "a lookup by a format string": ("escape", "forward", """
        def flash_attention_forward(q, k, v):
            return "{0.__closure__[0]}".format(q)
        """),
    "a lookup by a Formatter": ("escape", "forward", """
        import string
        def flash_attention_forward(q, k, v):
            return string.Formatter().get_field(k, (q,), {})
        """),
    "a lookup by a pattern": ("escape", "forward", """
        def flash_attention_forward(q, k, v):
            match q:
                case object(__closure__=cells):
                    return cells
        """),
    "the table of a type": ("escape", "forward", """
        def flash_attention_forward(q, k, v):
            return type(q).__dict__
        """),
    "the table of a thing": ("escape", "forward", """
        def flash_attention_forward(q, k, v):
            return vars(q)
        """),
    "the clock set": ("tampering", "forward", """
        import time
        time.perf_counter = lambda: 0.0
        def flash_attention_forward(q, k, v):
            return q
        """),
    "a search through torch": ("escape", "forward", """
        import torch.nn.functional as F
        def flash_attention_forward(q, k, v):
            return [f for n, f in vars(F).items() if n.startswith("scaled")][0](q, k, v)
        """),
    "name in a variable": ("library_attention", "forward", """
        import torch.nn.functional as F
        wanted = "scaled_dot_product_attention"
        def flash_attention_forward(q, k, v):
            return getattr(F, wanted)(q, k, v)
        """),
    "dictionary of the module": ("library_attention", "forward", """
        import torch.nn.functional as F
        def flash_attention_forward(q, k, v):
            return vars(F)["scaled_dot_product_attention"](q, k, v)
        """),
    "base class": ("library_attention", "module", """
        import torch.nn as nn
        class StandardAttention(nn.MultiheadAttention):
            pass
        """),
    "member": ("library_attention", "module", """
        from torch import nn
        class StandardAttention(nn.Module):
            def __init__(self, hidden_dim, num_heads):
                super().__init__()
                self.inner = nn.MultiheadAttention(hidden_dim, num_heads)
        """),
    "transformer layer": ("library_attention", "module", """
        from torch import nn
        class StandardAttention(nn.Module):
            def __init__(self, d, h):
                super().__init__()
                self.inner = nn.TransformerEncoderLayer(d, h)
        """),
    "decorator": ("library_attention", "forward", """
        import torch.nn.functional as F
        def replaced(function):
            return F.scaled_dot_product_attention
        @replaced
        def flash_attention_forward(q, k, v):
            return v
        """),
    "default argument": ("library_attention", "forward", """
        import torch.nn.functional as F
        def flash_attention_forward(q, k, v, f=F.scaled_dot_product_attention):
            return f(q, k, v)
        """),
    "closure": ("library_attention", "forward", """
        import torch.nn.functional as F
        def make():
            inner = F.scaled_dot_product_attention
            return lambda q, k, v: inner(q, k, v)
        flash_attention_forward = make()
        """),
    "helper of a helper": ("library_attention", "forward", """
        import torch.nn.functional as F
        class Tools:
            def one(self, q, k, v):
                return F.scaled_dot_product_attention(q, k, v)
        tools = Tools()
        def two(*args):
            return tools.one(*args)
        def flash_attention_forward(q, k, v):
            return two(q, k, v)
        """),
    "lambda": ("library_attention", "forward", """
        import torch.nn.functional as F
        flash_attention_forward = lambda q, k, v: F.scaled_dot_product_attention(q, k, v)
        """),
    "star import": ("library_attention", "forward", """
        from torch.nn.functional import *
        def flash_attention_forward(q, k, v):
            return scaled_dot_product_attention(q, k, v)
        """),
    "star import after the definition": ("softmax", "softmax", """
        def softmax(x, dim=-1):
            return x
        from torch.nn.functional import *
        """),
    "registry filled later": ("library_attention", "forward", """
        import torch.nn.functional as F
        ways = {}
        def flash_attention_forward(q, k, v):
            return ways["fast"](q, k, v)
        """, """
        ways["fast"] = F.scaled_dot_product_attention
        """),
    "registry filled by a method": ("library_attention", "forward", """
        import torch.nn.functional as F
        ways = []
        def flash_attention_forward(q, k, v):
            return ways[0](q, k, v)
        def install():
            ways.append(F.scaled_dot_product_attention)
        install()
        """),
    "patched method": ("library_attention", "module", """
        import torch.nn as nn
        import torch.nn.functional as F
        class StandardAttention(nn.Module):
            def forward(self, x):
                return x
        StandardAttention.forward = lambda self, x: F.scaled_dot_product_attention(x, x, x)
        """),
    "patched with setattr": ("library_attention", "module", """
        import torch.nn as nn
        import torch.nn.functional as F
        class StandardAttention(nn.Module):
            pass
        setattr(StandardAttention, "forward", lambda self, x: F.scaled_dot_product_attention(x, x, x))
        """),
    "global statement": ("library_attention", "forward", """
        import torch.nn.functional as F
        def flash_attention_forward(q, k, v):
            return v
        def swap():
            global flash_attention_forward
            flash_attention_forward = F.scaled_dot_product_attention
        swap()
        """),
    "globals()": ("library_attention", "forward", """
        import torch.nn.functional as F
        def flash_attention_forward(q, k, v):
            return v
        globals()["flash_attention_forward"] = F.scaled_dot_product_attention
        """),
    "globals() under a computed name": ("library_attention", "forward", """
        import torch.nn.functional as F
        def flash_attention_forward(q, k, v):
            return v
        for name in list(globals()):
            if name.startswith("flash"):
                globals()[name] = F.scaled_dot_product_attention
        """),
    "globals().update": ("library_attention", "forward", """
        import torch.nn.functional as F
        def flash_attention_forward(q, k, v):
            return v
        globals().update(flash_attention_forward=F.scaled_dot_product_attention)
        """),
    "the module through __main__": ("library_attention", "forward", """
        import __main__
        import torch.nn.functional as F
        def flash_attention_forward(q, k, v):
            return v
        __main__.flash_attention_forward = F.scaled_dot_product_attention
        """),
    "the notebook's namespace": ("library_attention", "forward", """
        import torch.nn.functional as F
        def flash_attention_forward(q, k, v):
            return v
        get_ipython().user_ns["flash_attention_forward"] = F.scaled_dot_product_attention
        """),
    "conditional definition": ("library_attention", "forward", """
        import torch.nn.functional as F
        if True:
            flash_attention_forward = F.scaled_dot_product_attention
        else:
            def flash_attention_forward(q, k, v):
                return v
        """),
    "defined twice": ("library_attention", "forward", """
        import torch.nn.functional as F
        def flash_attention_forward(q, k, v):
            return F.scaled_dot_product_attention(q, k, v)
        """, """
        keep = flash_attention_forward
        def flash_attention_forward(q, k, v):
            return keep(q, k, v)
        """),
    "functools.partial": ("library_attention", "forward", """
        import functools, torch
        flash_attention_forward = functools.partial(torch.nn.functional.scaled_dot_product_attention)
        """),
    "aten operator": ("library_attention", "forward", """
        import torch
        def flash_attention_forward(q, k, v):
            return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)
        """),
    "flex attention": ("library_attention", "forward", """
        from torch.nn.attention import flex_attention as fa
        def flash_attention_forward(q, k, v):
            return fa.flex_attention(q, k, v)
        """),
    "another package": ("library_attention", "forward", """
        def flash_attention_forward(q, k, v):
            import flash_attn
            return flash_attn.flash_attn_func(q, k, v)
        """),
    "as fallback": ("library_attention", "forward", """
        import torch.nn.functional as F
        def flash_attention_forward(q, k, v):
            try:
                return mine(q, k, v)
            except Exception:
                return F.scaled_dot_product_attention(q, k, v)
        """),
    "for loop variable": ("library_attention", "forward", """
        import torch.nn.functional as F
        for flash_attention_forward in [F.scaled_dot_product_attention]:
            pass
        """),
    "with statement": ("library_attention", "forward", """
        import contextlib
        import torch.nn.functional as F
        with contextlib.nullcontext(F.scaled_dot_product_attention) as flash_attention_forward:
            pass
        """),
    "another case of a generic function": ("library_attention", "forward", """
        import functools, torch
        import torch.nn.functional as F
        @functools.singledispatch
        def flash_attention_forward(q, k, v):
            return v
        @flash_attention_forward.register
        def _(q: torch.Tensor, k, v):
            return F.scaled_dot_product_attention(q, k, v)
        """),
    "walrus": ("library_attention", "forward", """
        import torch.nn.functional as F
        print(flash_attention_forward := F.scaled_dot_product_attention)
        """),
    "try and except": ("library_attention", "forward", """
        import torch.nn.functional as F
        try:
            raise ValueError
        except ValueError:
            flash_attention_forward = F.scaled_dot_product_attention
        """),
    "match": ("library_attention", "forward", """
        import torch.nn.functional as F
        match 1:
            case 1:
                flash_attention_forward = F.scaled_dot_product_attention
        """),
    "import_module": ("library_attention", "forward", """
        import importlib
        def flash_attention_forward(q, k, v):
            return importlib.import_module("torch.nn.functional").scaled_dot_product_attention(q, k, v)
        """),
    "torch.softmax": ("softmax", "softmax", """
        import torch
        def softmax(x, dim=-1):
            return torch.softmax(x, dim)
        """),
    "method softmax": ("softmax", "softmax", """
        def softmax(x, dim=-1):
            return x.softmax(dim)
        """),
    "method of a result": ("softmax", "softmax", """
        import torch
        def softmax(x, dim=-1):
            y = torch.clone(x)
            return y.softmax(dim)
        """),
    "logsumexp": ("softmax", "softmax", """
        import torch
        def softmax(x, dim=-1):
            return torch.exp(x - torch.logsumexp(x, dim, keepdim=True))
        """),
    "nn.Softmax": ("softmax", "softmax", """
        from torch import nn
        def softmax(x, dim=-1):
            return nn.Softmax(dim)(x)
        """),
    "an import kept under another name": ("softmax", "softmax", """
        from torch.nn.functional import softmax
        keep = softmax
        def softmax(x, dim=-1):
            return keep(x, dim)
        """),
    "the name itself imported": ("softmax", "softmax", """
        from torch.nn.functional import softmax
        """),
    "special": ("softmax", "softmax", """
        import torch
        def softmax(x, dim=-1):
            return torch.special.log_softmax(x, dim).exp()
        """),
    "autograd.grad": ("autograd", "backward", """
        import torch
        def flash_attention_backward(q, k, v, dout, out, lse):
            return torch.autograd.grad(out, (q, k, v), dout)
        """),
    "backward()": ("autograd", "backward", """
        def flash_attention_backward(q, k, v, dout, out, lse):
            out.backward(dout)
            return q.grad, k.grad, v.grad
        """),
    "enable_grad": ("autograd", "function", """
        import torch
        class FlashAttentionFunction(torch.autograd.Function):
            @staticmethod
            def backward(ctx, dout, dlse):
                with torch.enable_grad():
                    pass
        """),
    "requires_grad": ("autograd", "backward", """
        def flash_attention_backward(q, k, v, dout, out, lse):
            q = q.detach()
            q.requires_grad = True
        """),
    "requires_grad_": ("autograd", "backward", """
        def flash_attention_backward(q, k, v, dout, out, lse):
            q = q.detach().requires_grad_()
        """),
    "torch.func": ("autograd", "backward", """
        from torch.func import vjp
        def flash_attention_backward(q, k, v, dout, out, lse):
            return vjp(lambda *x: x, q, k, v)
        """),
    "to numpy": ("numpy", "forward", """
        import numpy as np
        def flash_attention_forward(q, k, v):
            return np.matmul(q.numpy(), k.numpy())
        """),
    "numpy by einsum": ("numpy", "forward", """
        from numpy import einsum as e
        def flash_attention_forward(q, k, v):
            return e("ij,kj->ik", q, k)
        """),
    "numpy by way of lists": ("numpy", "forward", """
        import numpy as np, torch
        def flash_attention_forward(q, k, v):
            return torch.tensor((np.array(q.tolist()) @ np.array(k.tolist())).tolist())
        """),
    "a distribution's transform": ("softmax", "softmax", """
        import torch
        def softmax(x, dim=-1):
            onto = torch.distributions.transform_to(torch.distributions.constraints.simplex)
            return onto(x.movedim(dim, -1)).movedim(-1, dim)
        """),
    "tensors without data": ("escape", "forward", """
        import torch
        from torch._subclasses.fake_tensor import FakeTensorMode
        def flash_attention_forward(q, k, v):
            with FakeTensorMode():
                return torch.empty(3)
        """),
    "scipy": ("numpy", "forward", """
        import scipy.special
        def flash_attention_forward(q, k, v):
            return scipy.special.logsumexp(q)
        """),
    "thread": ("threads", "forward", """
        import threading
        def flash_attention_forward(q, k, v):
            threading.Thread(target=print).start()
        """),
    "thread pool": ("threads", "forward", """
        from concurrent.futures import ThreadPoolExecutor
        pool = ThreadPoolExecutor(2)
        def flash_attention_forward(q, k, v):
            return pool.submit(len, q).result()
        """),
    "torch fork": ("threads", "forward", """
        import torch
        def flash_attention_forward(q, k, v):
            return torch.jit.fork(len, q)
        """),
    "exec": ("escape", "forward", """
        def flash_attention_forward(q, k, v):
            exec("import torch")
        """),
    "eval under another name": ("escape", "forward", """
        e = eval
        def flash_attention_forward(q, k, v):
            return e("q")
        """),
    "open": ("escape", "forward", """
        def flash_attention_forward(q, k, v):
            open("/etc/passwd")
        """),
    "frames": ("escape", "forward", """
        import sys
        def flash_attention_forward(q, k, v):
            return sys._getframe(1).f_locals["expected"]
        """),
    "gc": ("escape", "forward", """
        import gc
        def flash_attention_forward(q, k, v):
            return [x for x in gc.get_objects()]
        """),
    "globals of a function": ("escape", "forward", """
        def flash_attention_forward(q, k, v):
            return q.sum.__globals__
        """),
    "subclasses": ("escape", "forward", """
        def flash_attention_forward(q, k, v):
            return object.__subclasses__()
        """),
    "builtins": ("escape", "forward", """
        def flash_attention_forward(q, k, v):
            return __builtins__["eval"]("1")
        """),
    "dispatch modes switched off": ("escape", "forward", """
        from torch.utils._python_dispatch import _disable_current_modes
        def flash_attention_forward(q, k, v):
            with _disable_current_modes():
                return q @ k.mT @ v
        """),
    "TorchScript from text": ("escape", "forward", """
        import torch
        unit = torch.jit.CompilationUnit("def f(x): return x")
        def flash_attention_forward(q, k, v):
            return unit.f(q)
        """),
    "torch.load": ("escape", "forward", """
        import torch
        def flash_attention_forward(q, k, v):
            return torch.load("answers.pt")
        """),
    "the reference": ("reference", "forward", """
        from kernels.flash import flash_attention_forward
        """),
    "the reference inside": ("reference", "forward", """
        def flash_attention_forward(q, k, v):
            import solutions
            return solutions.forward(q, k, v)
        """),
    "patched tensor": ("tampering", "forward", """
        import torch
        torch.Tensor.__eq__ = lambda a, b: True
        def flash_attention_forward(q, k, v):
            return v
        """),
    "patched function": ("tampering", "forward", """
        import torch
        from torch.nn import functional
        functional.softmax = lambda x, dim: x
        def flash_attention_forward(q, k, v):
            return v
        """),
    "patched by setattr in a function": ("tampering", "forward", """
        import numpy as np
        def install():
            setattr(np.testing, "assert_allclose", lambda *a, **k: None)
        install()
        def flash_attention_forward(q, k, v):
            return v
        """),
    "patched builtins": ("tampering", "forward", """
        import builtins
        builtins.abs = lambda x: 0
        def flash_attention_forward(q, k, v):
            return v
        """),
    "patched sys.modules": ("tampering", "forward", """
        import sys
        sys.modules["torch"] = None
        def flash_attention_forward(q, k, v):
            return v
        """),
    "patched grader": ("tampering", "forward", """
        import grader.checking.compare as c
        c.close = lambda *a: True
        def flash_attention_forward(q, k, v):
            return v
        """),
    "operator registered again": ("tampering", "forward", """
        import torch
        lib = torch.library.Library("aten", "IMPL")
        def flash_attention_forward(q, k, v):
            return v
        """),
    "exec at module level": ("tampering", "forward", """
        def flash_attention_forward(q, k, v):
            return v
        exec(bytes([112]).decode())
        """),
    "ctypes": ("tampering", "forward", """
        import ctypes
        ctypes.memset(0, 0, 0)
        def flash_attention_forward(q, k, v):
            return v
        """),
}  # fmt: skip


@pytest.mark.parametrize("case", CHEATS)
def test_a_forbidden_use_is_found(case: str) -> None:
    rule, exercise, *cells = CHEATS[case]
    assert rule in rules(exercise, *cells)


HONEST = {
    "attributes with a name of which one end is fixed": ("module", """
        import torch
        class StandardAttention(torch.nn.Module):
            def forward(self, x):
                q, k, v = (getattr(self, f"{name}_proj")(x) for name in "qkv")
                return getattr(self, "out_" + "proj")(q) + getattr(x, "m%s" % "T") + vars(self)["scale"]
        """),
    "its own name": ("attention", """
        import math, torch
        def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
            '''scaled_dot_product_attention: softmax(QK^T)V'''
            if q.dim() != 4:
                raise ValueError("scaled_dot_product_attention: q must be [B, N, S, D]")
            print("scaled_dot_product_attention")
            return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v
        """),
    "an import that the definition replaces": ("softmax", """
        from torch.nn.functional import softmax
        import torch
        """, """
        def softmax(x, dim=-1):
            e = (x - x.amax(dim, keepdim=True)).exp()
            return e / e.sum(dim, keepdim=True)
        """),
    "recursion": ("softmax", """
        def softmax(x, dim=-1):
            if x.dim() > 9:
                return softmax(x[0], dim)
            e = (x - x.amax(dim, keepdim=True)).exp()
            return e / e.sum(dim, keepdim=True)
        """),
    "scratch that compares with the library": ("attention", """
        import torch, torch.nn.functional as F
        def scaled_dot_product_attention(q, k, v, *, scale=None, causal=False):
            out = (q @ k.mT).softmax(-1) @ v
            return out
        """, """
        out = F.scaled_dot_product_attention(*[torch.randn(1, 1, 2, 2)] * 3)
        torch.testing.assert_close(scaled_dot_product_attention(q, k, v), out)
        def compare(mine=scaled_dot_product_attention, theirs=F.scaled_dot_product_attention):
            return (mine(q, k, v) - theirs(q, k, v)).abs().max()
        print(compare(scaled_dot_product_attention, F.scaled_dot_product_attention))
        """),
    "scratch module with copied weights": ("module", """
        import torch
        from torch import nn
        class StandardAttention(nn.Module):
            def __init__(self, hidden_dim, num_heads):
                super().__init__()
                self.q_proj = nn.Linear(hidden_dim, hidden_dim)
            def forward(self, x):
                return self.attention(x)
            def attention(self, x):
                return x
        mine = StandardAttention(8, 2)
        ref = nn.MultiheadAttention(8, 2, batch_first=True)
        mine.q_proj.weight.data.copy_(ref.in_proj_weight[:8])
        mine.q_proj.weight.data[0] = ref.in_proj_weight[0]
        mine.load_state_dict(ref.state_dict())
        model = mine.eval()
        """),
    "own method of a library's name": ("module", """
        from torch import nn
        class StandardAttention(nn.Module):
            def scaled_dot_product_attention(self, q, k, v):
                return v
            def forward(self, x):
                return self.scaled_dot_product_attention(x, x, x)
        """),
    "scalars of numpy": ("forward", """
        import numpy as np
        def flash_attention_forward(q, k, v):
            scale = 1 / np.sqrt(q.shape[-1])
            return q * scale, -np.inf, np.float32(3).item(), int(np.ceil(3 / 2))
        """),
    "dynamic getattr": ("forward", """
        import torch
        OPS = ("exp", "amax")
        def flash_attention_forward(q, k, v):
            for op in OPS:
                q = getattr(torch, op)(q)
            return getattr(q, "T")
        """),
    "getattr on one's own objects": ("forward", """
        import torch
        class Parts:
            first = second = 1.0
        def flash_attention_forward(q, k, v):
            parts = Parts()
            for end in ("st", "rst"):
                q = q * getattr(parts, "fi" + end, 1.0)
            return torch.softmax(q, -1, dtype=getattr(q, "d" + "type"))
        """),
    "local names like builtins and modules": ("forward", """
        import os, sys, threading, inspect
        def flash_attention_forward(q, k, v, input=None, compile=None, open=3):
            os = q; threading = k; eval = v
            return os + threading + eval + open + (compile or 0) + (input or 0)
        """),
    "housekeeping": ("forward", """
        import os, sys, random, warnings
        import numpy as np
        import torch
        import matplotlib.pyplot as plt
        from grader.live.check import check
        os.environ["KMP_DUPLICATE_LIB_OK"] = "TRUE"
        sys.path.insert(0, ".")
        torch.manual_seed(0); np.random.seed(0); random.seed(0)
        torch.set_default_dtype(torch.float32)
        torch.set_printoptions(precision=3)
        torch.backends.cudnn.deterministic = True
        plt.rcParams["font.size"] = 12
        plt.rcParams.update({"axes.unicode_minus": False})
        warnings.filterwarnings("ignore")
        x = torch.zeros(3); x[0] = 1; x.grad = None; x.requires_grad = True
        mask = np.zeros(3); mask[1] = 2
        def flash_attention_forward(q, k, v):
            out = torch.empty_like(q); out[..., 0] = 1
            return out
        check("s2-forward")
        """),
    "inspection in a scratch cell": ("forward", """
        import gc, inspect, threading, time, io, pickle
        def flash_attention_forward(q, k, v):
            return v
        print(inspect.signature(flash_attention_forward), inspect.getsource(flash_attention_forward))
        gc.collect()
        open("notes.txt", "w").write("x")
        threading.Thread(target=print).start()
        eval_mode = True
        """),
    "gradients switched off": ("backward", """
        import torch
        @torch.no_grad()
        def flash_attention_backward(q, k, v, dout, out, lse):
            with torch.set_grad_enabled(False):
                q = q.detach().requires_grad_(False)
                z = torch.zeros(3, requires_grad=False)
            return q, k, v
        """),
    "an autograd.Function": ("function", """
        import torch
        from torch.autograd.function import once_differentiable
        def flash_attention_backward(q, k, v, dout):
            return q, k, v
        class FlashAttentionFunction(torch.autograd.Function):
            @staticmethod
            def forward(ctx, q, k, v):
                ctx.save_for_backward(q, k, v)
                return v
            @staticmethod
            @once_differentiable
            def backward(ctx, dout):
                if ctx.needs_input_grad[0] and dout.requires_grad is False:
                    return flash_attention_backward(*ctx.saved_tensors, dout)
        x = torch.randn(3, requires_grad=True)
        FlashAttentionFunction.apply(x, x, x).backward()
        torch.autograd.gradcheck(FlashAttentionFunction.apply, (x, x, x))
        """),
    "softmax outside s1-softmax": ("attention", """
        import torch
        def scaled_dot_product_attention(q, k, v):
            return torch.softmax(q @ k.mT, dim=-1) @ v + torch.logsumexp(q, -1).sum()
        """),
    "class-level helpers and own registries": ("forward", """
        import functools, itertools, operator, dataclasses, types, typing, collections
        import torch
        registry = {}
        def register(name):
            def wrap(function):
                registry[name] = function
                return function
            return wrap
        @register("forward")
        def tile(q: torch.Tensor, *, block: int = 128) -> torch.Tensor:
            return q
        @functools.cache
        def plan(n): return list(itertools.product(range(n), range(n)))
        @dataclasses.dataclass
        class State:
            row_max: torch.Tensor
            def update(self, scores): self.row_max = scores; return self
        def flash_attention_forward(q, k, v):
            state = State(q)
            extra = types.SimpleNamespace(n=0)
            state.update(k)
            state.row_max[..., 0] = 1
            flash_attention_forward.calls += 1
            return registry["forward"](state.row_max)
        flash_attention_forward.calls = 0
        """),
    "a variable that shadows a scratch name": ("softmax", """
        import torch
        reference = torch.softmax
        y = torch.softmax(torch.zeros(3), 0)
        def softmax(x, dim=-1):
            y = x.exp()
            reference = y.sum(dim, keepdim=True)
            return [y / reference for reference in (reference,)][0]
        """),
    "sys constants": ("forward", """
        import sys
        def flash_attention_forward(q, k, v):
            return q.clamp(min=sys.float_info.min) + sys.maxsize
        """),
    "patched printing": ("forward", """
        import torch
        torch.Tensor.__repr__ = lambda self: str(tuple(self.shape))
        def flash_attention_forward(q, k, v):
            return v
        """),
}  # fmt: skip


@pytest.mark.parametrize("case", HONEST)
def test_honest_code_is_not_refused(case: str) -> None:
    exercise, *cells = HONEST[case]
    name, forbid = NAMES[exercise]
    assert Policy(Source(program(*cells))).violations(name, forbid) == []


def test_a_violation_says_where_and_what() -> None:
    cells = "import torch\nF = torch.nn.functional\n", "def softmax(x, dim=-1):\n    return F.softmax(x, dim)\n"
    first = Policy(Source(program(*cells))).violations("softmax", ["softmax"])[0]
    assert (first.rule, first.what) == ("softmax", "torch.nn.functional.softmax")
    assert (first.where.cell, first.where.line) == (2, 2)
    assert "cell 2, line 2" in first.message.en
    assert "第 2 个单元第 2 行" in first.message.zh


def test_one_exercise_does_not_pay_for_another() -> None:
    cells = """
        import torch, torch.nn.functional as F
        def softmax(x, dim=-1):
            return torch.softmax(x, dim)
        def scaled_dot_product_attention(q, k, v):
            return softmax(q @ k.mT) @ v
        """
    assert rules("softmax", cells)
    assert rules("attention", cells) == []


def test_what_a_definition_uses_is_known() -> None:
    text = "import math\ndef a(x):\n    b = 1\n    return c(x)\ndef b(): pass\ndef c(x): return math.pi\n"
    source = Source(program(text))
    assert source.uses("a") == {"a", "c", "math"}
    assert source.defines("b")
    assert not source.defines("z")


@pytest.mark.parametrize("stage", [stage.id for stage in catalog.load(strict=False, checks=False).stages])
def test_the_worked_solutions_break_no_rule(stage: str) -> None:
    exercises = [e for e in catalog.load(strict=False, checks=False).stage(stage).exercises if not e.is_artifact]
    policy = Policy(Source(program("\n".join(exercise.solution.read_text("utf-8") for exercise in exercises))))
    assert {e.id: policy.violations(e.name, e.forbid, e.allow) for e in exercises} == {e.id: [] for e in exercises}


@pytest.mark.parametrize(
    "hostile",
    [
        "\n".join(f"x{i} = x{i - 1}.a if x{i - 1}.b else x{i - 1}.c" for i in range(1, 3000)),
        "\n".join(f"x{i} = x{(i + 1) % 3000}.y" for i in range(3000)),
        "def softmax(x):\n" + "\n".join(f"    x = x.view(x.a{i})(x)" for i in range(3000)) + "\n    return x\n",
        "if 1:\n" + "    pass\n" * 50_000,
        "softmax = " + "lambda: " * 90 + "0",
        "softmax = " + "+".join(['"a"'] * 700),
        "softmax = " + "f(" * 90 + ")" * 90,
        "softmax = f" + "()" * 900,
        "softmax = f" + ".a" * 900,
        "\n".join(f"x{i + 1} = x{i}{'.a()' * 30}" for i in range(100)) + "\nsoftmax = x100",
    ],
    ids=["choices", "cycle", "rebinding", "long", "lambdas", "concatenation", "nested", "calls", "attributes", "chain"],
)
def test_hostile_source_is_read_quickly(hostile: str) -> None:
    start = time.thread_time()
    assert rules("softmax", hostile, "def softmax(x, dim=-1):\n    return x0.softmax(dim)\n")
    assert time.thread_time() - start < 10
