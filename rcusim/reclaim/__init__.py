"""Deferred freeing: the generations of ``kfree_rcu()``, each behind one protocol."""
