"""Simulate deferred freeing in an RCU kernel: memory footprint, throughput, grace-period safety."""

from importlib.metadata import version as _version

__version__ = _version("rcusim")

__all__ = ["__version__"]
