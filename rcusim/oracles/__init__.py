"""Oracles: what must hold in every run, judged from outside of the code that could be wrong."""
