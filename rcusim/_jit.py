"""The one module that knows numba: flat integer arrays and functions over them at two speeds.

A *kernel* is a plain function over flat, list-compatible, one-dimensional integer arrays. With numba
it is compiled; without it, or with ``RCUSIM_JIT=0``, the same text runs as Python on lists. There is
no second implementation.

numba's own cache does not notice that a callee or a constant in another file has changed. The cache
therefore lives in a folder named after a hash of all source files that hold kernels: a changed text is
another folder, and a read-only installation works.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from rcusim.abc import IntArray as IntArray  # noqa: PLC0414 - belongs to this vocabulary

F = TypeVar("F", bound=Callable[..., object])

KERNEL_FILES = (
    "_jit.py",
    "machine/pages.py",
    "slab/kernel.py",
    "slab/slub_kernel.py",
    "oracles/ledger.py",
)
"""Every file that holds a kernel; a test compares this list with the uses of :func:`kernel`."""


def _source_digest() -> str:
    digest = hashlib.sha256()
    package = Path(__file__).parent
    for name in KERNEL_FILES:
        path = package / name
        if path.exists():
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _cache_folder() -> Path:
    """Return the folder for compiled kernels of exactly these sources."""
    base = os.environ.get("RCUSIM_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.home() raises where there is none
    if base:
        root = Path(base)
    elif home != "~":
        root = Path(home) / ".cache"
    else:
        root = Path(tempfile.gettempdir()) / f"rcusim-{os.getuid()}"
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return root / "rcusim" / f"{python}-{_source_digest()}"


def _compiler() -> Callable[[F], F] | None:
    """Return numba's decorator, or None where kernels stay Python."""
    if os.environ.get("RCUSIM_JIT", "1") == "0":
        return None
    try:
        import numba  # noqa: PLC0415 - the only use, and optional
    except ImportError:
        return None
    if not os.environ.get("NUMBA_CACHE_DIR"):
        # settings live on the module, which type information does not know
        setattr(numba.config, "CACHE_DIR", str(_cache_folder()))  # noqa: B010
    # kernels never make arrays, so that counting references to those they pass on is only cost (an
    # eighth of a flood's run time); nobody calls them from C
    njit: Any = numba.njit  # its type information knows the common options only
    return cast("Callable[[F], F]", njit(cache=True, _nrt=False, no_cfunc_wrapper=True))


CACHE_ERRORS = (OSError, EOFError, pickle.UnpicklingError)
"""What the first call of a kernel raises when its compile cache is damaged or cannot grow."""

_COMPILE = _compiler()
_KERNELS: list[Any] = []

COMPILED = _COMPILE is not None
"""Whether kernels run compiled in this process."""


def kernel(function: F) -> F:
    """Mark a module-level function over flat integer arrays as a kernel and compile it if possible."""
    if _COMPILE is None:
        return function
    compiled = _COMPILE(function)
    _KERNELS.append(compiled)
    return compiled


def forget_cache() -> None:
    """Remove the compiled kernels on disk, and keep those of this process in memory only."""
    shutil.rmtree(_cache_folder(), ignore_errors=True)
    from numba.core.caching import NullCache  # noqa: PLC0415 - optional

    for compiled in _KERNELS:
        compiled._cache = NullCache()  # noqa: SLF001 - numba has no other way to stop caching


def integers(length: int, *, bits: int = 64, fill: int = 0) -> IntArray:
    """Return a new flat array of `length` integers.

    Parameters
    ----------
    length : int
        Number of elements.
    bits : {16, 32, 64}
        Width of an element when compiled; interpreted arrays are lists and do not wrap.
    fill : int
        Value of every element.
    """
    if not COMPILED:
        return [fill] * length
    dtype = {16: np.int16, 32: np.int32, 64: np.int64}[bits]
    # zeros, not full: untouched pages of a large array cost the host nothing
    return np.zeros(length, dtype) if fill == 0 else np.full(length, fill, dtype)


def grown(array: IntArray, length: int, fill: int = 0) -> IntArray:
    """Return `array` with at least `length` elements, the new ones set to `fill`."""
    have = len(array)
    if have >= length:
        return array
    if isinstance(array, list):
        return array + [fill] * (length - have)
    assert isinstance(array, np.ndarray)
    larger = np.zeros(length, array.dtype) if fill == 0 else np.full(length, fill, array.dtype)
    larger[:have] = array
    return larger
