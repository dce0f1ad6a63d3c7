"""Workloads: who allocates, reads and frees."""
