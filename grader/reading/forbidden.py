"""What code may not use, by dotted name. Tables only; :mod:`grader.reading.policy` applies them."""

from __future__ import annotations

import re
from functools import cache

from grader.text import Text, say
from grader.worker.names import ATTENTION, SOFTMAX, TO_ARRAY

ALWAYS = ("escape", "reference")  # rules of every exercise

MESSAGES: dict[str, Text] = {
    "library_attention": say("用了 {what}；不能用现成的注意力。", "uses {what}; ready-made attention is not allowed."),
    "npu_operator": say("用了 {what}；NPU 算子从阶段三开始才用。", "uses {what}; the NPU's operators come in stage 3."),
    "softmax": say("用了 {what}；softmax 要自己写。", "uses {what}; softmax is to be written by hand."),
    "autograd": say("用了 {what}；梯度要按公式手写。", "uses {what}; the gradients are to be written by hand."),
    "numpy": say("用了 {what}；张量的计算要留在 torch 里。", "uses {what}; tensors are to stay in torch."),
    "threads": say("用了 {what}；不能开线程或进程。", "uses {what}; threads and processes are not allowed."),
    "escape": say(
        "用了 {what}；练习的代码不能绕开阅读。", "uses {what}; the code of an exercise may not escape reading."
    ),
    "reference": say("用了 {what}；不能用课程的参考实现。", "uses {what}; the course's own reference is not allowed."),
    "tampering": say("用 {what} 改动外部模块；请删掉。", "changes foreign modules through {what}; remove that."),
}

_ROOTS = {
    "library_attention": {
        "flash_attn", "xformers", "transformers", "ops_transformer", "diffusers",
        "timm", "keras", "sageattention", "flash_attn_npu", "mindspore", "vllm", "flashinfer",
    },
    "npu_operator": {"torch_npu", "cann_ops_transformer"},
    "threads": {"threading", "_thread", "multiprocessing", "concurrent", "asyncio", "joblib", "dask", "ray"},
    "numpy": {
        "scipy", "pandas", "numba", "cupy", "jax", "tensorflow", "sklearn", "mlx", "onnxruntime", "numexpr", "triton",
        "opt_einsum_fx", "array",
    },
    "reference": {"kernels", "solutions", "stages", "flashdojo_stages", "grader"},
    "escape": {
        "os", "posix", "subprocess", "ctypes", "_ctypes", "cffi", "gc", "inspect", "importlib", "pickle", "_pickle",
        "marshal", "dill", "cloudpickle", "shelve", "sqlite3", "socket", "shutil", "tempfile", "pathlib", "io", "mmap",
        "code", "codeop", "runpy", "signal", "resource", "ast", "dis", "pty", "http", "urllib", "requests",
        "pkgutil", "zipimport", "atexit", "tracemalloc", "linecache", "traceback", "pdb", "bdb", "unittest", "glob",
    },
}  # fmt: skip

_OPERATORS = re.compile(r"^torch\.ops\.(npu|cann_ops_transformer)\b")
_TORCH: dict[str, re.Pattern[str]] = {
    "npu_operator": re.compile(rf"{_OPERATORS.pattern}|^torch\.npu\b"),
    "threads": re.compile(
        r"^torch\.(multiprocessing|futures|set_num_(interop_)?threads|jit\.(_?fork|_?wait)|nn\.parallel"
        r"|nn\.DataParallel)\b"
    ),
    "autograd": re.compile(
        r"^torch\.(autograd\.(grad|backward|functional|forward_ad|enable_grad|set_grad_enabled|variable|Variable"
        r"|grad_mode\.(enable_grad|set_grad_enabled))"
        r"|enable_grad|set_grad_enabled|func\.(grad|vjp|jvp|jac|hessian|linearize)|functorch)\b"
        r"|^functorch\b"
    ),
    "numpy": re.compile(r"^torch\.(utils\.dlpack|to_dlpack|from_dlpack|Tensor\.(numpy|__array__|__dlpack__))\b"),
    "escape": re.compile(
        r"^torch\.(load|save|compile|hub|package|library|overrides|fx|distributed|onnx|from_file|classes|ops\.load_library"
        r"|_(C|refs|decomp|prims|inductor|dynamo|higher_order_ops|subclasses|functorch|ops|library|meta_registrations)"
        r"|jit\.(load|CompilationUnit)|utils\.(_python_dispatch|cpp_extension|model_zoo))\b"
    ),
    "softmax": re.compile(r"^torch\.(distributions|masked)\b"),
    "library_attention": re.compile(r"^torch\.(ao|quantization)\b"),  # holds an attention module in plain Python
}
# torch's private parts: no answer needs them, and through them operators hide from whoever watches
_PRIVATE = re.compile(r"^torch\.(.+\.)?_(?!_)")
# modules that other modules hold as attributes: torch.serialization.sys is sys
_HELD = {
    "torch", "builtins", "sys", "os", "ctypes", "gc", "importlib", "inspect", "io", "pickle", "socket", "subprocess",
    "threading",
}  # fmt: skip
_NUMPY = re.compile(
    r"^numpy\.(matmul|dot|einsum|tensordot|inner|vdot|from_dlpack|frombuffer|fromiter|linalg|stack|concatenate"
    r"|as(any|contiguous|fortran)?array|array)\b"
)
# what an exercise whose answer reads a folder may use (``allow = ["files"]``), unless it leads on to another module
_FILES = re.compile(
    r"^(open|io(\.open)?|pathlib(\.\w+)*|glob(\.\w+)*|os(\.(path(\.\w+)*|listdir|scandir|walk|fspath|sep))?)$"
)
_LOOKS_UP = re.compile(r"^(operator\.(attrgetter|methodcaller)|string\.Formatter)\b")
_TYPES = re.compile(r"^types\.(Function|Lambda|Code|Cell|Method|Frame|Module)Type\b")
_SYS = re.compile(
    r"^sys\.(modules|_getframe|_current_frames|settrace|setprofile|meta_path|path|path_hooks|addaudithook)\b"
)
_BUILTINS = re.compile(r"^builtins\.(exec|eval|compile|__import__|open|globals|breakpoint|input|__loader__)$")

# Attributes of things that cannot be told, such as a tensor or a frame.
_ATTRIBUTES = {
    "library_attention": {
        "scaled_dot_product_attention", "multi_head_attention_forward", "MultiheadAttention", "flex_attention",
        "_native_multi_head_attention", "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_attention_math", "TransformerEncoderLayer", "TransformerDecoderLayer",
    },
    "npu_operator": {"npu_fusion_attention", "npu_fusion_attention_grad"},
    "softmax": {"softmax", "log_softmax", "logsumexp", "logcumsumexp", "softmin", "_softmax", "_log_softmax"},
    "numpy": {*TO_ARRAY, "__array_interface__"},
    "autograd": {"backward", "requires_grad_", "retain_grad"},
    "escape": {
        "__globals__", "__builtins__", "__code__", "__closure__", "__subclasses__", "__import__", "f_globals",
        "f_locals", "f_back", "gi_frame", "cr_frame", "tb_frame", "tb_next", "__reduce__", "__reduce_ex__",
        "__torch_dispatch__", "__torch_function__", "_make_subclass", "_make_wrapper_subclass", "__getattribute__",
        "cell_contents", "__mro__", "__bases__", "__self__", "__loader__", "__spec__", "__dict__",
    },
}  # fmt: skip
# in a string that is put together or formatted: an attribute that leads out of a function, or a hole for such a name
_SPECIAL = re.compile(
    r"__(globals|builtins|code|closure|subclasses|import|getattribute|dict|mro|bases)__|__%s|__\{|%s__|\}__"
    r"|\{\w*[.\[][^}]*__"
)
OWN_MAY_HAVE = ("library_attention", "softmax", "autograd")  # the submission's own classes may use these names

# Of the whole submission, reached or not: these reach into what runs it.
_TAMPERS = re.compile(
    r"^(torch\.library\.|torch\._C\._dispatch|gc\.get_(objects|referrers|referents)$|ctypes\."
    r"|sys\.(_getframe|_current_frames|settrace|setprofile)$|inspect\.(currentframe|stack|getouterframes)$"
    r"|threading\.(settrace|setprofile)$|builtins\.exec$|builtins\.eval$|unittest\.mock\.patch)"
)
_MAY_BE_SET = re.compile(
    r"^(matplotlib|pylab|os|warnings|logging|random|IPython|ipywidgets|seaborn|plotly|pandas|tqdm|get_ipython)\b"
    r"|^sys\.(path|stdout|stderr|argv|displayhook|excepthook|ps1|ps2)\b"
    r"|^torch\.(backends|_dynamo\.config|_inductor\.config)\b|^numpy\.random\b"
    r"|^(__main__|submission)\b|^\."
)
_HARMLESS_TO_SET = {"__repr__", "__str__", "__format__", "_repr_html_"}


@cache
def rules_of_path(path: str) -> frozenset[str]:
    """The rules that a dotted name falls under. What follows a call (``torch.zeros().softmax``) is an attribute of a
    value and is judged by :func:`rules_of_attribute`."""
    if "()." in path:
        return rules_of_attribute(path.rsplit(".", 1)[1])
    path = path.removesuffix("()")
    root, *inner = path.split(".")
    held = [position for position, name in enumerate(inner, 1) if name.lstrip("_") in _HELD]
    if held:
        return rules_of_path(".".join(path.split(".")[held[-1] :]).lstrip("_"))
    rules = {rule for rule, roots in _ROOTS.items() if root in roots}
    if root == "torch":
        rules |= {"escape"} if _PRIVATE.search(path) else set()
        rules |= {rule for rule, pattern in _TORCH.items() if pattern.search(path)}
        rules |= {"library_attention"} if ATTENTION.search(path) and not _OPERATORS.search(path) else set()
        rules |= {"softmax"} if SOFTMAX.search(path) else set()
    if _NUMPY.search(path):
        rules.add("numpy")
    if _LOOKS_UP.search(path):
        rules.add("escape")
    if _SYS.search(path) or _TYPES.search(path) or _BUILTINS.search(path) or path.startswith("builtins.__builtins__"):
        rules.add("escape")
    if path.rsplit(".", 1)[-1] in _ATTRIBUTES["escape"]:
        rules.add("escape")
    return frozenset(rules)


@cache
def rules_of_attribute(name: str) -> frozenset[str]:
    return frozenset(rule for rule, names in _ATTRIBUTES.items() if name in names)


@cache
def rules_of_string(text: str) -> frozenset[str]:
    """A string that is exactly a forbidden name (or a dotted name that ends in one): getattr's food."""
    if _SPECIAL.search(text):
        return frozenset({"escape"})
    name = text.rsplit(".", 1)[-1]
    return frozenset(rules_of_attribute(name) & {"library_attention", "npu_operator", "softmax", "escape"})


@cache
def reads_files(what: str) -> bool:
    """Whether this (``open``, ``pathlib.Path``, ``os.listdir``) does no more than find and read files."""
    leads_on = any(name.lstrip("_") in _HELD for name in what.split(".")[1:])
    return bool(_FILES.search(what)) and not leads_on


@cache
def is_torch(path: str) -> bool:
    """Whether this is torch or something in it, and not a value that a call gave."""
    return path.split(".")[0] == "torch" and "()" not in path


def tampers(path: str) -> bool:
    return bool(_TAMPERS.search(path.removesuffix("()")))


def may_set(path: str, attribute: str | None) -> bool:
    """Whether a submission may assign to ``attribute`` (None: an item) of ``path``."""
    if "()" in path or attribute in _HARMLESS_TO_SET:
        return True
    if path.startswith("builtins."):
        return not path.startswith("builtins.__builtins__")
    return bool(_MAY_BE_SET.search(f"{path}.{attribute}" if attribute else path))
