"""The tables of a scenario file, with defaults, bounds and meaning of every key.

Kernel parameters keep the kernel's names. -1 stands for "as the kernel computes it" where the
kernel itself has a computed default.
"""

# ruff: noqa: RUF009 - the calls in class bodies make attrs fields, not shared values

from __future__ import annotations

import attrs

from rcusim.machine import platform
from rcusim.scenario.fields import folder_name, free_text, integer, integers, number, table, word

LARGEST_CLASS_BYTES = 4 << 20
"""Largest kmalloc class of SLAB (3.x to 6.0), and largest piece of the page allocator."""
RCU_HEAD_BYTES = 16
"""``sizeof(struct rcu_head)``: what an object must at least have room for."""
MOST_CPUS = 65_536
MOST_COUNT = 1_000_000_000
MOST_MS = 86_400_000


@attrs.frozen(kw_only=True)
class MachineTable:
    """``[machine]``: the board."""

    platform: str = word(
        "hikey960",
        platform.names,
        "cost table: what each operation costs, and how fast each CPU is",
    )
    cpus: int = integer(8, 1, MOST_CPUS, "CPUs", "CPUs that are online")
    memory_mib: int = integer(4096, 16, 1_048_576, "MiB", "RAM")
    base_used_mib: int = integer(0, 0, 1_048_576, "MiB", "RAM in use before the run begins")


@attrs.frozen(kw_only=True)
class RcutreeTable:
    """``[kernel.rcutree]``: boot parameters of kernel/rcu/tree.c."""

    blimit: int = integer(10, 1, MOST_COUNT, "callbacks", "most callbacks of one batch")
    qhimark: int = integer(
        10_000, 1, MOST_COUNT, "callbacks", "callbacks of a CPU above which limits are lifted"
    )
    qlowmark: int = integer(
        100, 0, MOST_COUNT, "callbacks", "callbacks of a CPU below which limits return"
    )
    rcu_divisor: int = integer(7, 0, 62, "", "a batch is at least the waiting callbacks >> this")
    rcu_resched_ns: int = integer(
        3_000_000, 1_000_000, 1_000_000_000, "ns", "longest time of a large batch"
    )
    jiffies_till_first_fqs: int = integer(
        -1, -1, 1000, "jiffies", "delay of the first scan; -1: the kernel's rule"
    )
    jiffies_till_next_fqs: int = integer(
        -1, -1, 1000, "jiffies", "delay between scans; -1: the kernel's rule"
    )
    rcu_fanout_leaf: int = integer(
        16, 2, 64, "CPUs", "CPUs of a leaf rcu_node (CONFIG_RCU_FANOUT_LEAF)"
    )
    rcu_fanout: int = integer(
        64, 2, 64, "nodes", "children of an inner rcu_node (CONFIG_RCU_FANOUT)"
    )


@attrs.frozen(kw_only=True)
class KernelTable:
    """``[kernel]``: configuration."""

    hz: int = number(250, (100, 250, 300, 1000), "ticks per second (CONFIG_HZ)")
    preempt: str = word("full", ("none", "voluntary", "full"), "preemption model (CONFIG_PREEMPT*)")
    skew_tick: int = integer(0, 0, 1, "", "1: spread the CPUs' ticks over half a period")
    rcutree: RcutreeTable = table(RcutreeTable)


@attrs.frozen(kw_only=True)
class SlabTable:
    """``[slab]``: the allocator."""

    allocator: str = word(
        "slab", ("slab", "slub-3.18", "slub-6.18"), "allocator; SLUB as of a release"
    )
    layout: str = word(
        "gen4_objfreelist",
        ("gen1_struct_slab", "gen2_page_overlay", "gen3_byte_index", "gen4_objfreelist"),
        'where SLAB keeps the freelist of a slab (allocator = "slab")',
    )
    kmalloc_minimum_bytes: int = number(
        128, (8, 32, 128), "smallest kmalloc class: on x86-64 32 (SLAB) or 8 (SLUB), on arm64 128"
    )


@attrs.frozen(kw_only=True)
class ReclaimTable:
    """``[reclaim]``: which kfree_rcu(), and its constants."""

    generation: str = word(
        "G2", ("G0", "G1", "G2"), "G0: call_rcu() each; G1: batching (5.5); G2: kfree_bulk (5.7)"
    )
    drain_jiffies: int = integer(
        -1, -1, 1_000_000, "jiffies", "KFREE_DRAIN_JIFFIES; -1: HZ/50 (G1, G2)"
    )
    block_entries: int = number(
        509, (509, 510), "pointers of a block: 509 in 5.7, 510 as first posted (G2)"
    )
    slots: int = integer(
        2, 1, 16, "slots", "KFREE_N_BATCHES: grace periods a CPU can wait for at once"
    )
    cached_pages: int = integer(1, 0, 1, "pages", "block pages a CPU keeps for reuse (G2)")
    objects_per_step: int = integer(
        510, 1, 510, "objects", "most objects of a list that are freed in one step"
    )


@attrs.frozen(kw_only=True)
class RcuscaleWorkload:
    """``[workload]`` of kind rcuscale: the kfree_rcu test, with the module's parameters."""

    kind: str = word("rcuscale", ("rcuscale",), "which workload")
    kfree_nthreads: int = integer(
        -1, -MOST_CPUS, MOST_CPUS, "threads", "-1: one a CPU; n < -1: CPUs + 1 + n, at least 1"
    )
    kfree_alloc_num: int = integer(8000, 1, MOST_COUNT, "objects", "objects of a loop")
    kfree_loops: int = integer(10, 1, MOST_COUNT, "loops", "loops of a thread")
    kfree_mult: int = integer(1, 1, 1_000_000, "", "multiplies the size of an object")
    object_bytes: int = integer(
        24, RCU_HEAD_BYTES, LARGEST_CLASS_BYTES, "bytes", "sizeof(struct kfree_obj)"
    )
    footprint: str = word(
        "merged", ("posted_v3", "posted_v4", "merged"), "how samples make the reported footprint"
    )
    objects_per_turn: int = integer(
        0, 0, 1_000_000, "objects", "objects of one step; 0: kfree_alloc_num"
    )
    nice: int = integer(19, -20, 19, "", "priority of the threads")
    start_skew_us: int = integer(
        1000, 0, 10_000_000, "us", "threads start at random within this time"
    )


@attrs.frozen(kw_only=True)
class BurstWorkload:
    """``[workload]`` of kind burst: producers at a rate, with pauses."""

    kind: str = word("burst", ("burst",), "which workload")
    cpus: int = integer(1, 1, MOST_CPUS, "threads", "producers, one a CPU from CPU 0")
    rate_per_second: int = integer(
        1_000_000, 1, 1_000_000_000, "objects/s", "of one producer during a burst"
    )
    duration_ms: int = integer(10, 1, MOST_MS, "ms", "length of a burst")
    pause_ms: int = integer(90, 0, MOST_MS, "ms", "pause between bursts")
    bursts: int = integer(10, 1, 1_000_000, "bursts", "number of bursts")
    sizes_bytes: tuple[int, ...] = integers(
        (24,), RCU_HEAD_BYTES, LARGEST_CLASS_BYTES, "bytes", "sizes of requests"
    )
    weights: tuple[int, ...] = integers(
        attrs.Factory(lambda self: (1,) * len(self.sizes_bytes), takes_self=True),
        1,
        1_000_000,
        "",
        "sizes_bytes are drawn in these proportions; absent: all alike",
    )
    live_ms: int = integer(
        0, 0, MOST_MS, "ms", "time between allocation and kfree_rcu(); 0: at once"
    )
    objects_per_turn: int = integer(100, 1, 1_000_000, "objects", "objects of one step")
    nice: int = integer(0, -20, 19, "", "priority of the producers")


@attrs.frozen(kw_only=True)
class NoWorkload:
    """``[workload]`` of kind none: readers only."""

    kind: str = word("none", ("none",), "which workload")


Workload = RcuscaleWorkload | BurstWorkload | NoWorkload
WORKLOADS: dict[str, type[Workload]] = {
    "rcuscale": RcuscaleWorkload,
    "burst": BurstWorkload,
    "none": NoWorkload,
}


@attrs.frozen(kw_only=True)
class ReadersTable:
    """``[readers]``: threads in read-side critical sections; without the table there are none."""

    threads: int = integer(1, 1, MOST_CPUS, "threads", "readers with short sections")
    section_us: int = integer(10, 1, 1_000_000_000, "us", "length of a short section")
    gap_us: int = integer(100, 0, 1_000_000_000, "us", "mean pause between short sections")
    long_threads: int = integer(0, 0, MOST_CPUS, "threads", "readers with long sections")
    long_section_ms: int = integer(100, 1, 1_000_000, "ms", "length of a long section")
    long_gap_ms: int = integer(100, 0, 1_000_000, "ms", "mean pause between long sections")
    nice: int = integer(0, -20, 19, "", "priority of the readers")
    duration_ms: int = integer(
        0, 0, MOST_MS, "ms", "readers run so long; 0: as long as the workload"
    )


@attrs.frozen(kw_only=True)
class RunTable:
    """``[run]``: limits of the simulation itself."""

    limit_ms: int = integer(
        3_600_000, 0, 1_000_000_000, "ms", "virtual time at which a run is given up; 0: never"
    )


@attrs.frozen(kw_only=True)
class Scenario:
    """One variant of a scenario file, fully resolved.

    Attributes
    ----------
    variant : str
        Name of the variant; ``default`` when the file has none.
    seed : int
        Decides everything that time does not.
    """

    name: str = folder_name("scenario", "name of the scenario; absent: the file's")
    description: str = free_text("", "what the scenario is for")
    variant: str = folder_name("default", "name of the variant")
    seed: int = integer(1, 0, (1 << 63) - 1, "", "decides everything that time does not")
    machine: MachineTable = table(MachineTable)
    kernel: KernelTable = table(KernelTable)
    slab: SlabTable = table(SlabTable)
    reclaim: ReclaimTable = table(ReclaimTable)
    workload: Workload = attrs.field(factory=RcuscaleWorkload)
    readers: ReadersTable | None = table(ReadersTable, optional=True)
    run: RunTable = table(RunTable)
