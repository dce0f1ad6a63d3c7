"""The machine: CPUs that schedule CPU time, ticks, softirqs, kworkers, pages, prices."""
