"""Library attention is out of reach for every worker; softmax, autograd and numpy by profile."""

from __future__ import annotations

import pytest
import torch

from grader.subject import Raised

ATTENTION = """
import torch, torch.nn.functional as F
from torch import nn
from torch.nn.attention import flex_attention as flex

def sdpa(q): return F.scaled_dot_product_attention(q, q, q)
def under_grad(q): q = q.clone().requires_grad_(); return F.scaled_dot_product_attention(q, q, q)
def inference(q):
    with torch.inference_mode(): return torch._C._nn.scaled_dot_product_attention(q, q, q)
def math(q): return torch.ops.aten._scaled_dot_product_attention_math(q, q, q)[0]
def flash(q): return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, q, q)[0]
def decomposed(q): return torch.ops.aten.scaled_dot_product_attention.default.decompose(q, q, q)
def redispatched(q):
    op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    return op._op_dk(torch._C.DispatchKey.CPU, q, q, q)[0]
def by_name(q): return getattr(F, "scaled_dot_" + "product_attention")(q, q, q)
def from_table(q): return torch._decomp.decomposition_table[
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default](q, q, q)[0]
def scripted(q): return torch.jit.script(sdpa)(q)
def traced(q): return torch.jit.trace(sdpa, (q,))(q)
def compiled(q):
    unit = torch.jit.CompilationUnit("def f(q):\\n    return torch.scaled_dot_product_attention(q, q, q)\\n")
    return unit.f(q)
def vmapped(q): return torch.vmap(lambda x: F.scaled_dot_product_attention(x, x, x))(q)
def multihead(q): return nn.MultiheadAttention(4, 1)(q[0], q[0], q[0])[0]
def unmade(q):
    m = nn.MultiheadAttention.__new__(nn.MultiheadAttention); nn.Module.__init__(m)
    return nn.MultiheadAttention.forward(m, q, q, q)
def functional(q):
    w, b = torch.randn(12, 4), torch.zeros(12)
    return F.multi_head_attention_forward(q[0], q[0], q[0], 4, 1, w, b, None, None, False, 0.0, w[:4], b[:4])[0]
def transformer(q): return nn.TransformerEncoderLayer(4, 1)(q[0])
def flexed(q): return flex.flex_attention(q, q, q)
def flexed_inside(q):
    from torch._higher_order_ops.flex_attention import math_attention
    return math_attention(q, q, q, lambda s, *a: s, (), 1.0, {})[0]
def native(q): return torch._native_multi_head_attention(
    q[0], q[0], q[0], 4, 1, torch.randn(12, 4), torch.zeros(12), torch.randn(4, 4), torch.zeros(4))[0]
def quantizable(q):
    from torch.ao.nn.quantizable import MultiheadAttention
    return MultiheadAttention._forward_impl(nn.MultiheadAttention(4, 1), q[0], q[0], q[0])[0]
def onnx(q): return torch.onnx.ops.attention(q, q, q)[0]
def fresh_library(q):
    lib = torch.library.Library("aten", "IMPL")
    lib._destroy()
    return F.scaled_dot_product_attention(q, q, q)
def collected(q):
    import gc
    for thing in gc.get_objects():
        if type(thing).__name__ in ("Library", "_DispatchModule", "RegistrationHandle"):
            try: thing._destroy()
            except Exception: pass
    return F.scaled_dot_product_attention(q, q, q)
"""
ROUTES = [line.split("(")[0].removeprefix("def ") for line in ATTENTION.splitlines() if line.startswith("def ")]


@pytest.mark.parametrize("route", ROUTES)
def test_no_route_to_library_attention(program, route):
    subject = program(ATTENTION)
    assert not subject.load_report.errors
    with pytest.raises(Raised) as raised:
        subject.call(route, torch.randn(1, 2, 8, 4))
    assert "not allowed in FlashDojo" in raised.value.text or route in ("scripted", "compiled", "from_table")


def test_what_learners_need_is_left(program):
    subject = program(
        """
        import torch
        def f(x): return torch.softmax(x, -1) + torch.logsumexp(x, -1, keepdim=True) + torch.tensor(x.numpy())
        def linear(x): return torch.nn.Linear(4, 4)(x)
        """
    )
    assert subject.call("f", torch.randn(3, 4)).value.shape == (3, 4)
    assert subject.call("linear", torch.randn(3, 4)).value.shape == (3, 4)


SOFTMAX = """
import torch, torch.nn.functional as F
from torch import nn
def a(x): return torch.softmax(x, -1)
def b(x): return x.softmax(-1)
def c(x): return F.log_softmax(x, -1).exp()
def d(x): return (x - x.logsumexp(-1, keepdim=True)).exp()
def e(x): return nn.Softmax(-1)(x)
def f(x): return torch.ops.aten._softmax(x, -1, False)
def g(x): return torch.ops.aten._safe_softmax(x, -1)
def h(x): return torch.special.softmax(x, -1)
def i(x): return F.softmin(-x, -1)
def j(x): return torch.softmax(x.clone().requires_grad_(), -1).detach()
def k(x): return F.gumbel_softmax(x)
def l(x): return torch.logcumsumexp(x, -1)
def n(x): return torch.vmap(lambda a: torch.softmax(a, -1))(x)
def m(x): return torch._masked_softmax(x, torch.zeros_like(x, dtype=torch.bool))
def o(x):
    from torch._decomp import decompositions
    return decompositions._softmax(x, -1, False)
def p(x): return torch.distributions.transforms.SoftmaxTransform()(x)
def q(x): return torch._refs.softmax(x, -1)
def own(x):
    weights = (x - x.amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1, keepdim=True)
"""


@pytest.mark.parametrize("name", "abcdefghijklmnopq")
def test_softmax_must_be_written(program, name):
    with pytest.raises(Raised, match="write softmax yourself"):
        program(SOFTMAX, bans=("softmax",)).call(name, torch.randn(3, 4))


def test_a_written_softmax_works_where_softmax_is_banned(program):
    x = torch.randn(3, 4)
    assert torch.allclose(program(SOFTMAX, bans=("softmax",)).call("own", x).value, torch.softmax(x, -1))


AUTOGRAD = """
import torch
def forward(q): return (q @ q.transpose(-1, -2)).softmax(-1) @ q
def leaf(q): return q.detach().clone().requires_grad_()
def grad(q):
    q = leaf(q)
    with torch.enable_grad(): return torch.autograd.grad(forward(q).sum(), q)[0]
def backward(q):
    q = leaf(q)
    with torch.enable_grad(): forward(q).sum().backward()
    return q.grad
def func(q): return torch.func.grad(lambda q: forward(q).sum())(q)
def vjp(q): return torch.func.vjp(forward, q)[1](torch.ones_like(q))[0]
def jacobian(q): return torch.autograd.functional.jacobian(forward, q).sum((0, 1))
def forward_mode(q):
    import torch.autograd.forward_ad as fwd
    with fwd.dual_level(): return fwd.unpack_dual(forward(fwd.make_dual(q, torch.ones_like(q)))).tangent
def traced(q):
    f = torch.jit.trace(forward, (q,))
    q = leaf(q)
    for _ in range(4): out = f(q)
    return torch.autograd.grad(out.sum(), q)[0]
def complexes(q):
    q = leaf(q.to(torch.complex64))
    return torch.autograd.grad((q @ q.T).abs().sum(), q)[0].real
def subclass(q):
    q = leaf(q.as_subclass(type("S", (torch.Tensor,), {})))
    return torch.autograd.grad(forward(q).sum(), q)[0].as_subclass(torch.Tensor)
def other_key(q):
    q = leaf(q)
    out = torch.ops.aten.mm.default._op_dk(torch._C.DispatchKey.AutogradXLA, q, q.detach().T.clone())
    return torch.autograd.grad(out, q, torch.ones_like(out))[0]
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q): ctx.save_for_backward(q); return q * q
    @staticmethod
    def backward(ctx, g): return 2 * g * ctx.saved_tensors[0]
"""


@pytest.mark.parametrize(
    "name",
    ["grad", "backward", "func", "vjp", "jacobian", "forward_mode", "traced", "complexes", "subclass", "other_key"],
)
def test_autograd_gives_no_gradient(program, name):
    subject = program(AUTOGRAD, bans=("autograd",))
    try:
        value = subject.call(name, torch.randn(5, 5)).value
    except Raised:
        return
    assert value is None or not value.any()


def test_a_written_backward_works_where_autograd_is_banned(program):
    q, g = torch.randn(5, 5), torch.randn(5, 5)
    outcome = program(AUTOGRAD, bans=("autograd",)).backward("F", [q], [g], [0])
    assert outcome.differentiable == (True,)
    assert torch.allclose(outcome.value[1][0], 2 * g * q)


NUMPY = """
import ctypes, math, numpy as np, torch
def a(x): return torch.tensor(x.numpy())
def b(x): return torch.tensor(np.asarray(x))
def c(x): return torch.tensor(np.from_dlpack(x))
def d(x): return torch.tensor(torch._C.TensorBase.numpy(x))
def e(x): return torch.tensor(np.exp(x))
def f(x): return torch.tensor(np.array(x.tolist()))
def g(x): return torch.tensor(np.from_dlpack(torch.utils.dlpack.to_dlpack(x)))
def h(x):
    array = np.zeros(x.shape, np.float32)
    torch.from_numpy(array).copy_(x)
    return torch.tensor(array)
def i(x):
    array = np.zeros(x.shape, np.float32)
    torch.as_tensor(array).copy_(x)
    return torch.tensor(array)
def j(x):
    array = np.zeros(x.shape, np.float32)
    torch.asarray(array).copy_(x)
    return torch.tensor(array)
def k(x): return torch.tensor(np.array(x.untyped_storage().tolist()))
def l(x): return torch.tensor(np.frombuffer(bytes(iter(x.untyped_storage())), np.float32))
def shown(x): print(x); return repr(x)
def honest(x, lengths): return x * (1 / np.sqrt(x.shape[-1])) + torch.tensor(lengths.tolist()).sum() * math.pi
"""


@pytest.mark.parametrize("name", "abcdefghijkl")
def test_no_way_into_numpy(program, name):
    x = torch.ones(100, 100)
    subject = program(NUMPY, bans=("numpy",))
    if name in "ij":  # an array handed to torch is copied, so that writing to the tensor does not fill it
        assert not subject.call(name, x).value.any()
    else:
        with pytest.raises(Raised, match="without numpy"):
            subject.call(name, x)


def test_numbers_of_numpy_and_printing_are_fine(program):
    subject = program(NUMPY, bans=("numpy", "softmax", "autograd"))
    assert subject.call("honest", torch.ones(4), torch.tensor([1, 2])).value.shape == (4,)
    for shape in ((), (500,), (3, 300), (2, 3, 100), (50, 50)):
        assert "tensor(" in subject.call("shown", torch.rand(shape)).value
