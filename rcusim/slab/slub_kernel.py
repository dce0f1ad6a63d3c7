"""The compiled text of SLUB: plain functions over flat integer arrays, at two speeds.

Models ``mm/slub.c`` on one node: the slab of each CPU with its own freelist, the partial lists of
CPUs and node, the fast and slow paths of allocation and free, bulk free by detached freelists, the
fall-back to the smallest order, and requests that go straight to the page allocator; after 3.18
(bulk free after 5.4) and after 6.18. Three predicates decide whether a free is fast: the comparison
of slabs, and two that were posted for 3.18 and look at the CPU's freelist instead. Leaves out: NUMA,
debugging, pfmemalloc reserves, slabs that wait for a grace period, flushing and shrinking, sheaves
(kmalloc caches have none), and that exhausted slabs were left frozen by the series in which one of
the predicates was posted.

State is in four arrays:

`words`
    What is known of the world (first `WORLD` words), then `WORDS` words for each cache.
`entries`
    `CPU_WORDS` integers for each CPU of each cache, and behind them the random orders of new slabs.
`rows`
    `ROW` integers for each slab, at the place of its first frame, behind one row of each cache that
    is the head of the circular partial list of its node. Full slabs are on no list.
`freelists`
    ``1 << INDEX_BITS`` integers for each frame: behind each free object the index of the next one.

The address of an object is its slab's first frame shifted by `INDEX_BITS`, plus its index.
"""

from __future__ import annotations

from rcusim._jit import IntArray, kernel
from rcusim.machine.pages import give_pages, take_pages
from rcusim.slab.kernel import link_after, unlink

# counts of an operation, and the running totals of a cache
ALLOCATED_FAST = 0  # objects from the CPU's freelist by kmalloc()
ALLOCATED_SLOW = 1  # objects for which kmalloc() took the slow path
BULK_ALLOCATED = 2  # objects handed out by kmem_cache_alloc_bulk()
FREED_FAST = 3  # objects to the CPU's freelist by kfree()
FREED_SLOW = 4  # objects to the slab's freelist by kfree()
BULK_FREED = 5  # objects taken back by kfree_bulk()
GROUPS_FAST = 6  # detached freelists that kfree_bulk() put on the CPU's freelist
GROUPS_SLOW = 7  # and on a slab's
GROUP_MISSES = 8  # objects of another slab that it looked at meanwhile
REFILLS = 9  # allocations that found the CPU's freelist empty
SLABS_RELOADED = 10  # of these, those served by what was freed to the CPU's slab elsewhere
SLABS_FORGOTTEN = 11  # full slabs that a CPU let go of
CPU_PARTIAL_TAKEN = 12  # slabs from a CPU's partial list to its slab
CPU_PARTIAL_GIVEN = 13  # slabs that a free put on a CPU's partial list
NODE_REFILLS = 14  # times slabs were taken from the node's list
NODE_TAKEN = 15  # slabs taken there
DRAINS = 16  # CPU partial lists returned to the node
DRAINED = 17  # slabs on them
LIST_LOCKS = 18  # times the list lock was taken
SLABS_NEW = 19  # slabs made
LINES_NEW = 20  # cache lines touched to chain their objects
SLABS_DISCARDED = 21  # slabs given back
FALLBACKS = 22  # slabs of the smallest order, the preferred one being refused
PAGE_TAKES = 23  # requests to the page allocator
PAGE_REFUSALS = 24  # of these, refused
LARGE_TAKEN = 25  # requests served by the page allocator alone
LARGE_GIVEN = 26  # and given back
TALLIES = 27

# words of the world
CACHES = 0
CPUS = 1
INDEX_BITS = 2
SENTINELS = 3  # rows before that of frame 0
MARK_PAGES = 4  # what must stay free when pages are taken
PAGES_HELD = 5  # pages of all slabs and large objects
OBJECTS_OUT = 6  # objects handed out, of all caches
BYTES_OUT = 7  # the same at class size
PRICE_NS = 8  # of the last operation
LOCKS_HELD = 9  # caches whose list lock it held
LATE = 10  # rules of 6.18, else of 3.18
PREDICATE = 11  # what makes a free fast
END_TOKENS = 12  # freelists end in the address of their slab with bit 0 set, else in NULL
PRICE_PS = 13  # price of each count
HELD_PS = PRICE_PS + TALLIES  # part of it for which the list lock is held
WORLD = HELD_PS + TALLIES

# values of PREDICATE
SAME_SLAB = 0  # the object's slab is the CPU's slab
FREELIST_WINDOW = 1  # the CPU's freelist begins in a window behind the object's slab's start
FREELIST_BOUND = 2  # the CPU's freelist begins in the object's slab

# words of a cache
OBJECTS = 0  # of a slab of the preferred order
OBJECT_BYTES = 1
ORDER = 2
MIN_OBJECTS = 3  # of a slab of the smallest order
MIN_ORDER = 4
MIN_PARTIAL = 5  # slabs that the node keeps though they are empty
CPU_PARTIAL = 6  # limit of a CPU's partial list: objects (3.18) or slabs (6.18)
LARGE = 7  # objects are pages, there are no slabs
SEQUENCE_AT = 8  # entries of the random order of a new slab's objects
SEQUENCE = 9  # length of it, 0: ascending order
STARTS = 10  # positions that follow it, from which new slabs begin in turn
STARTED = 11  # slabs that have begun from one
NR_PARTIAL = 12  # slabs on the node's list
SLABS = 13  # slabs there are
SLAB_OBJECTS = 14  # objects of these
HOLD_NS = 15  # how long the last operation held the list lock
COUNTS = 16  # of the operation that is going on
TOTALS = COUNTS + TALLIES  # of all operations before
WORDS = TOTALS + TALLIES

# words of a CPU and cache
CPU_WORDS = 3
CPU_SLAB = 0  # row, -1: none
CPU_FREELIST = 1  # first free index, -1: none
CPU_LIST = 2  # row of the head of the partial list, -1: empty

# words of a slab's row; NEXT and PREV as the list functions of SLAB have them
ROW_SHIFT = 3
ROW = 1 << ROW_SHIFT
NEXT = 0
PREV = 1
LISTED = 1  # on a CPU's partial list: objects or slabs on it from here on, as counted when added
INUSE = 2  # objects that are not on the slab's freelist
OWNER = 3  # cache + 1, 0: no slab begins here
FREE = 4  # first free index of the slab's freelist, -1: none
STATE = 5
HELD_OBJECTS = 6  # objects of the slab
HELD_ORDER = 7

# values of STATE
LOOSE = 0
FROZEN = 1  # owned by a CPU
ON_NODE = 2  # on the node's partial list

LOOKAHEAD = 3
WINDOW_BYTES = 2048  # 1 << MAX_ORDER, as if it were a number of bytes
PAGE_SHIFT = 12
LINE_BYTES = 64


@kernel
def load_slab(entries: IntArray, rows: IntArray, cpu_at: int, row: int) -> None:
    """Make a slab the CPU's, with all its free objects (``get_freelist``, ``freeze_slab``)."""
    at = row << ROW_SHIFT
    entries[cpu_at + CPU_SLAB] = row
    entries[cpu_at + CPU_FREELIST] = rows[at + FREE]
    rows[at + FREE] = -1
    rows[at + INUSE] = rows[at + HELD_OBJECTS]
    rows[at + STATE] = FROZEN


@kernel
def put_cpu_partial(
    words: IntArray, entries: IntArray, rows: IntArray, cpu_at: int, row: int
) -> None:
    """Put a slab at the head of a CPU's partial list, whatever is there already."""
    at = row << ROW_SHIFT
    head = entries[cpu_at + CPU_LIST]
    listed = rows[(head << ROW_SHIFT) + LISTED] if head >= 0 else 0
    if words[LATE]:
        rows[at + LISTED] = listed + 1
        rows[at + STATE] = LOOSE
    else:
        rows[at + LISTED] = listed + rows[at + HELD_OBJECTS] - rows[at + INUSE]
        rows[at + STATE] = FROZEN
    rows[at + NEXT] = head
    entries[cpu_at + CPU_LIST] = row


@kernel
def take_node_partial(
    words: IntArray, entries: IntArray, rows: IntArray, cache: int, cpu_at: int
) -> int:
    """Take slabs from the head of the node's list; return the first, -1 if there is none.

    The others go to the CPU's partial list (``get_partial_node``): until the free objects gathered
    exceed half of what the list is meant to hold (3.18), or the slabs on it do (6.18).
    """
    w = WORLD + cache * WORDS
    if words[w + NR_PARTIAL] == 0:
        return -1
    words[w + COUNTS + NODE_REFILLS] += 1
    words[w + COUNTS + LIST_LOCKS] += 1
    enough = words[w + CPU_PARTIAL] // 2
    first = -1
    objects = 0
    others = 0
    row = rows[(cache << ROW_SHIFT) + NEXT]
    while row != cache:
        at = row << ROW_SHIFT
        after = rows[at + NEXT]
        unlink(rows, row)
        words[w + NR_PARTIAL] -= 1
        words[w + COUNTS + NODE_TAKEN] += 1
        objects += rows[at + HELD_OBJECTS] - rows[at + INUSE]
        if first < 0:
            first = row
        else:
            put_cpu_partial(words, entries, rows, cpu_at, row)
            others += 1
        if (others if words[LATE] else objects) > enough:
            break
        row = after
    return first


@kernel
def take_slab_pages(words: IntArray, page_words: IntArray, page_links: IntArray, cache: int) -> int:
    """Take pages of the preferred or else the smallest order; return ``frame << 1 | smallest`` or -1."""
    w = WORLD + cache * WORDS
    order, mark = words[w + ORDER], words[MARK_PAGES]
    words[w + COUNTS + PAGE_TAKES] += 1
    frame = take_pages(page_words, page_links, order, mark)
    if frame >= 0:
        return frame << 1
    words[w + COUNTS + PAGE_REFUSALS] += 1
    order = words[w + MIN_ORDER]
    if order == words[w + ORDER]:
        return -1
    words[w + COUNTS + PAGE_TAKES] += 1
    frame = take_pages(page_words, page_links, order, mark)
    if frame < 0:
        words[w + COUNTS + PAGE_REFUSALS] += 1
        return -1
    words[w + COUNTS + FALLBACKS] += 1
    return frame << 1 | 1


@kernel
def chain_objects(
    words: IntArray, entries: IntArray, freelists: IntArray, cache: int, base: int, objects: int
) -> int:
    """Chain all objects of a new slab; return the first (``allocate_slab``, ``shuffle_freelist``)."""
    w = WORLD + cache * WORDS
    length = words[w + SEQUENCE]
    if length == 0 or objects < 2:
        for index in range(objects - 1):
            freelists[base + index] = index + 1
        freelists[base + objects - 1] = -1
        return 0
    sequence = words[w + SEQUENCE_AT]
    position = entries[sequence + length + words[w + STARTED] % words[w + STARTS]]
    words[w + STARTED] += 1
    first = -1
    last = -1
    for _ in range(length):
        index = entries[sequence + position]
        position = position + 1 if position + 1 < length else 0
        if index >= objects:  # of the preferred order, but not of this one
            continue
        if last < 0:
            first = index
        else:
            freelists[base + last] = index
        last = index
    freelists[base + last] = -1
    return first


@kernel
def new_slab(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    freelists: IntArray,
    page_words: IntArray,
    page_links: IntArray,
    cache: int,
) -> int:
    """Make a slab of free objects; return its row, or -1 without pages (``new_slab``)."""
    w = WORLD + cache * WORDS
    found = take_slab_pages(words, page_words, page_links, cache)
    if found < 0:
        return -1
    frame = found >> 1
    smallest = found & 1
    objects = words[w + (MIN_OBJECTS if smallest else OBJECTS)]
    order = words[w + (MIN_ORDER if smallest else ORDER)]
    row = frame + words[SENTINELS]
    at = row << ROW_SHIFT
    base = frame << words[INDEX_BITS]
    rows[at + FREE] = chain_objects(words, entries, freelists, cache, base, objects)
    rows[at + INUSE] = 0
    rows[at + OWNER] = cache + 1
    rows[at + STATE] = LOOSE
    rows[at + HELD_OBJECTS] = objects
    rows[at + HELD_ORDER] = order
    words[w + SLABS] += 1
    words[w + SLAB_OBJECTS] += objects
    words[PAGES_HELD] += 1 << order
    words[w + COUNTS + SLABS_NEW] += 1
    stride = min(words[w + OBJECT_BYTES], LINE_BYTES)
    words[w + COUNTS + LINES_NEW] += (objects * stride + LINE_BYTES - 1) // LINE_BYTES
    return row


@kernel
def refill(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    freelists: IntArray,
    page_words: IntArray,
    page_links: IntArray,
    cache: int,
    cpu_at: int,
) -> bool:
    """Fill a CPU's empty freelist; return whether that worked (``__slab_alloc``)."""
    w = WORLD + cache * WORDS
    words[w + COUNTS + REFILLS] += 1
    row = entries[cpu_at + CPU_SLAB]
    if row >= 0:
        if rows[(row << ROW_SHIFT) + FREE] >= 0:
            words[w + COUNTS + SLABS_RELOADED] += 1
            load_slab(entries, rows, cpu_at, row)
            return True
        rows[(row << ROW_SHIFT) + STATE] = LOOSE
        entries[cpu_at + CPU_SLAB] = -1
        words[w + COUNTS + SLABS_FORGOTTEN] += 1
    row = entries[cpu_at + CPU_LIST]
    if row >= 0:
        entries[cpu_at + CPU_LIST] = rows[(row << ROW_SHIFT) + NEXT]
        words[w + COUNTS + CPU_PARTIAL_TAKEN] += 1
        load_slab(entries, rows, cpu_at, row)
        return True
    row = take_node_partial(words, entries, rows, cache, cpu_at)
    if row < 0:
        row = new_slab(words, entries, rows, freelists, page_words, page_links, cache)
    if row < 0:
        return False
    load_slab(entries, rows, cpu_at, row)
    return True


@kernel
def discard_slab(
    words: IntArray,
    rows: IntArray,
    page_words: IntArray,
    page_links: IntArray,
    cache: int,
    row: int,
) -> None:
    """Give a slab's pages back."""
    w = WORLD + cache * WORDS
    at = row << ROW_SHIFT
    order = rows[at + HELD_ORDER]
    rows[at + OWNER] = 0
    give_pages(page_words, page_links, row - words[SENTINELS], order)
    words[w + SLABS] -= 1
    words[w + SLAB_OBJECTS] -= rows[at + HELD_OBJECTS]
    words[PAGES_HELD] -= 1 << order
    words[w + COUNTS + SLABS_DISCARDED] += 1


@kernel
def drain_cpu_partial(
    words: IntArray,
    rows: IntArray,
    page_words: IntArray,
    page_links: IntArray,
    cache: int,
    row: int,
) -> None:
    """Return a CPU's partial list to the node (``unfreeze_partials``, ``__put_partials``).

    Empty slabs of which the node has enough are discarded, after the lock was dropped.
    """
    w = WORLD + cache * WORDS
    words[w + COUNTS + DRAINS] += 1
    words[w + COUNTS + LIST_LOCKS] += 1
    doomed = -1
    while row >= 0:
        at = row << ROW_SHIFT
        after = rows[at + NEXT]
        words[w + COUNTS + DRAINED] += 1
        if rows[at + INUSE] == 0 and words[w + NR_PARTIAL] >= words[w + MIN_PARTIAL]:
            rows[at + NEXT] = doomed
            doomed = row
        else:
            rows[at + STATE] = ON_NODE
            link_after(rows, rows[(cache << ROW_SHIFT) + PREV], row)
            words[w + NR_PARTIAL] += 1
        row = after
    while doomed >= 0:
        after = rows[(doomed << ROW_SHIFT) + NEXT]
        discard_slab(words, rows, page_words, page_links, cache, doomed)
        doomed = after


@kernel
def freed_to_slab(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    page_words: IntArray,
    page_links: IntArray,
    cache: int,
    cpu_at: int,
    row: int,
    was_full: int,
) -> None:
    """Move a slab that no CPU owns after it was full, or became empty (``__slab_free``)."""
    w = WORLD + cache * WORDS
    if was_full:
        full_list = -1
        head = entries[cpu_at + CPU_LIST]
        if head >= 0:
            # 3.18 lets a list exceed its limit and then drains it, 6.18 does not let it
            surplus = rows[(head << ROW_SHIFT) + LISTED] - words[w + CPU_PARTIAL] + words[LATE]
            if surplus > 0:
                full_list = head
                entries[cpu_at + CPU_LIST] = -1
        put_cpu_partial(words, entries, rows, cpu_at, row)
        words[w + COUNTS + CPU_PARTIAL_GIVEN] += 1
        if full_list >= 0:
            drain_cpu_partial(words, rows, page_words, page_links, cache, full_list)
        return
    words[w + COUNTS + LIST_LOCKS] += 1
    listed = rows[(row << ROW_SHIFT) + STATE] == ON_NODE
    if listed and words[w + NR_PARTIAL] >= words[w + MIN_PARTIAL]:
        unlink(rows, row)
        words[w + NR_PARTIAL] -= 1
        discard_slab(words, rows, page_words, page_links, cache, row)


@kernel
def is_fast(
    words: IntArray, entries: IntArray, rows: IntArray, cache: int, cpu_at: int, row: int
) -> bool:
    """Return whether an object of a slab is freed to the CPU's freelist.

    The window is that of ``same_slab_page`` as it was posted: behind the start of the object's slab
    ``1 << MAX_ORDER`` bytes, where pages were meant, and ``order << PAGE_SHIFT`` bytes, 0 for order 0.
    """
    owned = entries[cpu_at + CPU_SLAB]
    if words[PREDICATE] == SAME_SLAB:
        return owned == row
    index = entries[cpu_at + CPU_FREELIST]
    if owned < 0 or (index < 0 and not words[END_TOKENS]):
        return False
    size_bytes = words[WORLD + cache * WORDS + OBJECT_BYTES]
    ahead = ((owned - row) << PAGE_SHIFT) + (index * size_bytes if index >= 0 else 1)
    at = row << ROW_SHIFT
    if words[PREDICATE] == FREELIST_WINDOW:
        return 0 < ahead < min(WINDOW_BYTES, rows[at + HELD_ORDER] << PAGE_SHIFT)
    return 0 < ahead < rows[at + HELD_OBJECTS] * size_bytes


@kernel
def settle(words: IntArray) -> None:
    """Price what the operation counted, and add it to the totals."""
    price_ps = 0
    words[LOCKS_HELD] = 0
    for cache in range(words[CACHES]):
        w = WORLD + cache * WORDS
        held_ps = 0
        for tally in range(TALLIES):
            count = words[w + COUNTS + tally]
            if count:
                words[w + COUNTS + tally] = 0
                words[w + TOTALS + tally] += count
                price_ps += count * words[PRICE_PS + tally]
                held_ps += count * words[HELD_PS + tally]
        words[w + HOLD_NS] = held_ps // 1000
        if held_ps >= 1000:
            words[LOCKS_HELD] += 1
    words[PRICE_NS] = price_ps // 1000


@kernel
def allocate_large(
    words: IntArray,
    rows: IntArray,
    page_words: IntArray,
    page_links: IntArray,
    cache: int,
    n: int,
    out: IntArray,
    first: int,
) -> int:
    """Take pages for up to `n` objects above the largest cache; return how many were had."""
    w = WORLD + cache * WORDS
    order = words[w + ORDER]
    for i in range(n):
        words[w + COUNTS + PAGE_TAKES] += 1
        frame = take_pages(page_words, page_links, order, words[MARK_PAGES])
        if frame < 0:
            words[w + COUNTS + PAGE_REFUSALS] += 1
            return i
        at = (frame + words[SENTINELS]) << ROW_SHIFT
        rows[at + OWNER] = cache + 1
        rows[at + HELD_ORDER] = order
        words[PAGES_HELD] += 1 << order
        words[w + COUNTS + LARGE_TAKEN] += 1
        out[first + i] = frame << words[INDEX_BITS]
    return n


@kernel
def take_objects(
    entries: IntArray,
    freelists: IntArray,
    cpu_at: int,
    base: int,
    most: int,
    out: IntArray,
    to: int,
) -> int:
    """Pop up to `most` objects of a CPU's freelist; return how many."""
    index = entries[cpu_at + CPU_FREELIST]
    n = 0
    while n < most and index >= 0:
        out[to + n] = base + index
        index = freelists[base + index]
        n += 1
    entries[cpu_at + CPU_FREELIST] = index
    return n


@kernel
def allocate(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    freelists: IntArray,
    page_words: IntArray,
    page_links: IntArray,
    cpu: int,
    cache: int,
    n: int,
    out: IntArray,
    first: int,
    bulk: int,
) -> int:
    """Allocate up to `n` objects into ``out[first:]``; return how many were had (``kmalloc``)."""
    w = WORLD + cache * WORDS
    cpu_at = (cache * words[CPUS] + cpu) * CPU_WORDS
    got = 0
    slow = 0
    if words[w + LARGE]:
        got = allocate_large(words, rows, page_words, page_links, cache, n, out, first)
    else:
        while got < n:
            if entries[cpu_at + CPU_FREELIST] < 0:
                if not refill(
                    words, entries, rows, freelists, page_words, page_links, cache, cpu_at
                ):
                    break
                slow += 1
            base = (entries[cpu_at + CPU_SLAB] - words[SENTINELS]) << words[INDEX_BITS]
            got += take_objects(entries, freelists, cpu_at, base, n - got, out, first + got)
        if bulk:
            words[w + COUNTS + BULK_ALLOCATED] += got
        else:
            words[w + COUNTS + ALLOCATED_SLOW] += slow
            words[w + COUNTS + ALLOCATED_FAST] += got - slow
    words[OBJECTS_OUT] += got
    words[BYTES_OUT] += got * words[w + OBJECT_BYTES]
    settle(words)
    return got


@kernel
def free_fast(
    words: IntArray,
    entries: IntArray,
    freelists: IntArray,
    cpu_at: int,
    addresses: IntArray,
    start: int,
    step: int,
    most: int,
) -> int:
    """Push up to `most` objects of one slab, the CPU's, on its freelist; return how many."""
    bits = words[INDEX_BITS]
    frame = addresses[start] >> bits
    base = frame << bits
    head = entries[cpu_at + CPU_FREELIST]
    n = 0
    while n < most:
        address = addresses[start + n * step]
        if address >> bits != frame:
            break
        freelists[address] = head
        head = address - base
        n += 1
    entries[cpu_at + CPU_FREELIST] = head
    return n


@kernel
def free_slow(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    freelists: IntArray,
    page_words: IntArray,
    page_links: IntArray,
    cache: int,
    cpu_at: int,
    addresses: IntArray,
    start: int,
    step: int,
    most: int,
) -> int:
    """Push up to `most` objects of one slab on its freelist, until it has to move; return how many."""
    bits = words[INDEX_BITS]
    frame = addresses[start] >> bits
    base = frame << bits
    row = frame + words[SENTINELS]
    at = row << ROW_SHIFT
    frozen = rows[at + STATE] == FROZEN
    head = rows[at + FREE]
    inuse = rows[at + INUSE]
    n = 0
    while n < most:
        address = addresses[start + n * step]
        if address >> bits != frame:
            break
        was_full = head < 0
        freelists[address] = head
        head = address - base
        inuse -= 1
        n += 1
        if not frozen and (was_full or inuse == 0):
            rows[at + FREE] = head
            rows[at + INUSE] = inuse
            freed_to_slab(
                words, entries, rows, page_words, page_links, cache, cpu_at, row, was_full
            )
            return n
    rows[at + FREE] = head
    rows[at + INUSE] = inuse
    return n


@kernel
def owner_of(words: IntArray, rows: IntArray, address: int) -> int:
    """Return the cache of an object, -1 if the address is of none."""
    row = (address >> words[INDEX_BITS]) + words[SENTINELS]
    if row < words[SENTINELS] or row >= len(rows) >> ROW_SHIFT:
        return -1
    return rows[(row << ROW_SHIFT) + OWNER] - 1


@kernel
def free_large(
    words: IntArray,
    rows: IntArray,
    page_words: IntArray,
    page_links: IntArray,
    cache: int,
    address: int,
) -> None:
    """Give the pages of an object back that is above the largest cache."""
    w = WORLD + cache * WORDS
    frame = address >> words[INDEX_BITS]
    rows[((frame + words[SENTINELS]) << ROW_SHIFT) + OWNER] = 0
    give_pages(page_words, page_links, frame, words[w + ORDER])
    words[PAGES_HELD] -= 1 << words[w + ORDER]
    words[w + COUNTS + LARGE_GIVEN] += 1


@kernel
def release(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    freelists: IntArray,
    page_words: IntArray,
    page_links: IntArray,
    cpu: int,
    addresses: IntArray,
    first: int,
    n: int,
    step: int,
) -> int:
    """Free `n` objects, a ``kfree()`` each.

    Returns how many were freed: fewer than `n` only when an address lies in no slab.
    """
    done = 0
    while done < n:
        start = first + done * step
        cache = owner_of(words, rows, addresses[start])
        if cache < 0:
            break
        w = WORLD + cache * WORDS
        cpu_at = (cache * words[CPUS] + cpu) * CPU_WORDS
        # whether a free is fast by the slab alone stays so for the next object of it
        most = n - done if words[PREDICATE] == SAME_SLAB else 1
        row = (addresses[start] >> words[INDEX_BITS]) + words[SENTINELS]
        if words[w + LARGE]:
            free_large(words, rows, page_words, page_links, cache, addresses[start])
            chunk = 1
        elif is_fast(words, entries, rows, cache, cpu_at, row):
            chunk = free_fast(words, entries, freelists, cpu_at, addresses, start, step, most)
            words[w + COUNTS + FREED_FAST] += chunk
        else:
            chunk = free_slow(
                words, entries, rows, freelists, page_words, page_links,
                cache, cpu_at, addresses, start, step, most,
            )  # fmt: skip
            words[w + COUNTS + FREED_SLOW] += chunk
        words[OBJECTS_OUT] -= chunk
        words[BYTES_OUT] -= chunk * words[w + OBJECT_BYTES]
        done += chunk
    settle(words)
    return done


@kernel
def detach(
    words: IntArray, freelists: IntArray, cache: int, some: IntArray, size: int
) -> tuple[int, int, int]:
    """Chain objects of the slab of the last one of ``some[:size]`` (``build_detached_freelist``).

    Looks towards the front and gives up at the third object of another slab. Returns how many
    objects are left in front, the first of the chain, and its length; the last of it is the object
    that was last. 5.4 leaves -1 where objects were, 6.18 swaps objects that are left to the front.
    """
    w = WORLD + cache * WORDS
    bits = words[INDEX_BITS]
    late = words[LATE]
    size -= 1
    head = some[size]
    frame = head >> bits
    freelists[head] = -1
    some[size] = -1
    left = size if late else 0
    count = 1
    misses = 0
    while size > 0:
        size -= 1
        address = some[size]
        if address < 0:
            continue
        if address >> bits != frame:
            misses += 1
            if misses == LOOKAHEAD:
                break
            if not late and left == 0:
                left = size + 1
            continue
        freelists[address] = head - (frame << bits)
        head = address
        count += 1
        some[size] = -1
        if late:
            left -= 1
            some[size] = some[left]
            some[left] = -1
    words[w + COUNTS + GROUP_MISSES] += misses
    return left, head, count


@kernel
def free_group(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    freelists: IntArray,
    page_words: IntArray,
    page_links: IntArray,
    cpu: int,
    cache: int,
    head: int,
    tail: int,
    count: int,
) -> None:
    """Free a detached freelist at once (``do_slab_free``)."""
    w = WORLD + cache * WORDS
    cpu_at = (cache * words[CPUS] + cpu) * CPU_WORDS
    bits = words[INDEX_BITS]
    row = (head >> bits) + words[SENTINELS]
    at = row << ROW_SHIFT
    index = head - (head >> bits << bits)
    words[w + COUNTS + BULK_FREED] += count
    if is_fast(words, entries, rows, cache, cpu_at, row):
        words[w + COUNTS + GROUPS_FAST] += 1
        freelists[tail] = entries[cpu_at + CPU_FREELIST]
        entries[cpu_at + CPU_FREELIST] = index
        return
    words[w + COUNTS + GROUPS_SLOW] += 1
    was_full = rows[at + FREE] < 0
    freelists[tail] = rows[at + FREE]
    rows[at + FREE] = index
    rows[at + INUSE] -= count
    if rows[at + STATE] != FROZEN and (was_full or rows[at + INUSE] == 0):
        freed_to_slab(words, entries, rows, page_words, page_links, cache, cpu_at, row, was_full)


@kernel
def release_bulk(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    freelists: IntArray,
    page_words: IntArray,
    page_links: IntArray,
    cpu: int,
    addresses: IntArray,
    first: int,
    n: int,
    some: IntArray,
) -> bool:
    """Free ``addresses[first : first + n]`` with one ``kfree_bulk()``, by way of ``some[:n]``.

    Returns whether all were freed. If not, ``some[n]`` is an address that lies in no slab, and
    nothing more was freed after it was met.
    """
    for i in range(n):
        some[i] = addresses[first + i]
        if some[i] < 0:
            some[n] = some[i]
            settle(words)
            return False
    left = n
    while left > 0:
        tail = some[left - 1]
        if tail < 0:  # freed with an earlier group
            left -= 1
            continue
        cache = owner_of(words, rows, tail)
        if cache < 0:
            some[n] = tail
            settle(words)
            return False
        w = WORLD + cache * WORDS
        count = 1
        if words[w + LARGE]:
            left -= 1
            free_large(words, rows, page_words, page_links, cache, tail)
        else:
            left, head, count = detach(words, freelists, cache, some, left)
            free_group(
                words,
                entries,
                rows,
                freelists,
                page_words,
                page_links,
                cpu,
                cache,
                head,
                tail,
                count,
            )
        words[OBJECTS_OUT] -= count
        words[BYTES_OUT] -= count * words[w + OBJECT_BYTES]
    settle(words)
    return True


@kernel
def chain_length(freelists: IntArray, base: int, index: int, most: int) -> int:
    """Return the length of a freelist by walking it, `most` + 1 if it is longer than `most`."""
    n = 0
    while index >= 0 and n <= most:
        n += 1
        index = freelists[base + index]
    return n


@kernel
def walk_rows(
    words: IntArray, rows: IntArray, freelists: IntArray, cache: int
) -> tuple[int, int, int]:
    """Return pages, objects and free objects of a cache's slabs, from every row and freelist.

    Large objects are slabs of one object here. What CPUs have on freelists of theirs is not free.
    """
    bits, sentinels = words[INDEX_BITS], words[SENTINELS]
    large = words[WORLD + cache * WORDS + LARGE]
    pages = 0
    objects = 0
    free = 0
    for row in range(sentinels, len(rows) >> ROW_SHIFT):
        at = row << ROW_SHIFT
        if rows[at + OWNER] != cache + 1:
            continue
        pages += 1 << rows[at + HELD_ORDER]
        if large:
            objects += 1
            continue
        objects += rows[at + HELD_OBJECTS]
        base = (row - sentinels) << bits
        free += chain_length(freelists, base, rows[at + FREE], rows[at + HELD_OBJECTS])
    return pages, objects, free


@kernel
def walk_node(rows: IntArray, cache: int) -> int:
    """Return the free objects of the slabs on a node's partial list (``count_partial``)."""
    free = 0
    row = rows[(cache << ROW_SHIFT) + NEXT]
    while row != cache:
        at = row << ROW_SHIFT
        free += rows[at + HELD_OBJECTS] - rows[at + INUSE]
        row = rows[at + NEXT]
    return free
