"""The compiled text of SLAB: plain functions over flat integer arrays, at two speeds.

Models ``mm/slab.c`` on one node: the arrays of the CPUs, the shared array, the lists of partial,
full and free slabs, refill, growth, flush, destruction and reaping, after 3.12 for gens 1 to 3 and
after 5.4 for gen 4. Leaves out alien arrays (NUMA), debugging, pfmemalloc reserves, slabs that wait
for a grace period (RCU-typesafe caches, which kmalloc's are not), and colour: addresses here are
indices, to which a colour makes no difference.

State is in four arrays:

`words`
    What is known of the world (first `WORLD` words), then `WORDS` words for each cache.
`entries`
    Arrays of objects. Each has a header, how many it holds and whether it was touched, and then
    room for its limit. A cache has one for each CPU and a shared one, which has no room where the
    kernel has none.
`rows`
    `ROW` integers for each slab, at the place of its first frame, behind three rows of each cache
    that are the heads of its circular lists.
`freelists`
    ``1 << INDEX_BITS`` indices for each frame.

The address of an object is its slab's first frame shifted by `INDEX_BITS`, plus its index.

Caches that hold the management of others have theirs on-slab. Each operation therefore exists once
for such a cache (`..._plain`) and once for any, which calls the former: nothing here is recursive.
"""

from __future__ import annotations

from rcusim._jit import IntArray, kernel
from rcusim.machine.pages import give_pages, take_pages

# counts of an operation, and the running totals of a cache
ALLOCATED = 0  # objects handed out
FREED = 1  # objects taken back one by one
BULK_FREED = 2  # objects taken back by kfree_bulk()
MANAGERS_TAKEN = 3  # objects taken to hold the management of another cache's slab
MANAGERS_GIVEN = 4  # and given back
REFILLS = 5  # allocations that found the CPU's array empty
FLUSHES = 6  # frees that found it full
LIST_LOCKS = 7  # times the list lock was taken
SHARED_TAKEN = 8  # objects from the shared array to a CPU's
SHARED_GIVEN = 9  # objects from a CPU's array to the shared one
SLAB_TAKEN = 10  # objects from listed slabs to a CPU's array
FRESH_TAKEN = 11  # objects from a new slab straight to a CPU's array (5.4)
SLAB_GIVEN = 12  # objects from arrays to slabs
SLAB_VISITS = 13  # slabs from which a refill took
SLABS_NEW = 14  # slabs made
SLABS_DESTROYED = 15  # slabs given back
SLABS_DESTROYED_LOCKED = 16  # of these, while the list lock was held
PAGE_TAKES = 17  # requests to the page allocator
PAGE_REFUSALS = 18  # of these, refused
PAGE_GIVES = 19  # slabs' pages given back
DRAINS = 20  # arrays from which reaping took
REAPS = 21  # times the cache was looked at by cache_reap()
TALLIES = 22

# words of the world
CACHES = 0
INDEX_BITS = 1
SENTINELS = 2  # rows before that of frame 0
MARK_PAGES = 3  # what must stay free when a slab's pages are taken
PAGES_HELD = 4  # pages of all slabs
OBJECTS_OUT = 5  # objects handed out, of all caches
BYTES_OUT = 6  # the same at class size
PRICE_NS = 7  # of the last operation
LOCKS_HELD = 8  # caches whose list lock it held
PRICE_PS = 9  # price of each count
HELD_PS = PRICE_PS + TALLIES  # part of it for which the list lock is held
WORLD = HELD_PS + TALLIES

# words of a cache
OBJECTS = 0  # of a slab
OBJECT_BYTES = 1
ORDER = 2
LIMIT = 3  # capacity of a CPU's array
BATCH = 4  # objects of a refill or flush
SHARED_LIMIT = 5  # capacity of the shared array
FREE_LIMIT = 6  # free objects above which empty slabs go
LINKED = 7  # free objects form a linked list (gen 1), else a stack
LATE = 8  # rules of 5.4, else of 3.12
MANAGEMENT = 9  # cache of the off-slab management, -1: on-slab
ARRAY_AT = 10  # entries of CPU 0's array
ARRAY_STRIDE = 11  # from one CPU's array to the next's
SHARED_AT = 12  # entries of the shared array
FREE_OBJECTS = 13  # objects free on slabs
FREE_TOUCHED = 14  # a refill has looked at the free slabs since the last reap
NEXT_REAP_NS = 15  # when the node's lists may be reaped again
SLABS = 16  # slabs on all lists
HOLD_NS = 17  # how long the last operation held the list lock
COUNTS = 18  # of the operation that is going on
TOTALS = COUNTS + TALLIES  # of all operations before
WORDS = TOTALS + TALLIES

# header of an array of objects
AVAIL = 0
TOUCHED = 1
ENTRY = 2

# words of a slab's row
ROW_SHIFT = 3
ROW = 1 << ROW_SHIFT
NEXT = 0
PREV = 1
ACTIVE = 2  # objects that are not free
OWNER = 3  # cache + 1, 0: no slab begins here
FREE = 4  # first free index (gen 1)
MANAGER_FRAME = 5  # object that holds the management, -1: on-slab
MANAGER_INDEX = 6

# heads of the lists of a cache
LISTS = 3
PARTIAL_LIST = 0
FULL_LIST = 1
FREE_LIST = 2

BATCH_REFILL_LIMIT = 16
NODE_REAP_NS = 4_000_000_000  # REAPTIMEOUT_NODE


@kernel
def link_after(rows: IntArray, before: int, row: int) -> None:
    """Put a row behind another one of a list."""
    after = rows[(before << ROW_SHIFT) + NEXT]
    rows[(row << ROW_SHIFT) + NEXT] = after
    rows[(row << ROW_SHIFT) + PREV] = before
    rows[(after << ROW_SHIFT) + PREV] = row
    rows[(before << ROW_SHIFT) + NEXT] = row


@kernel
def unlink(rows: IntArray, row: int) -> None:
    """Take a row off its list."""
    after = rows[(row << ROW_SHIFT) + NEXT]
    before = rows[(row << ROW_SHIFT) + PREV]
    rows[(after << ROW_SHIFT) + PREV] = before
    rows[(before << ROW_SHIFT) + NEXT] = after


@kernel
def take_from_slab(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    freelists: IntArray,
    cache: int,
    row: int,
    to: int,
    most: int,
) -> int:
    """Move up to `most` objects of a slab to ``entries[to:]``; return how many."""
    w = WORLD + cache * WORDS
    at = row << ROW_SHIFT
    bits = words[INDEX_BITS]
    base = (row - words[SENTINELS]) << bits
    active = rows[at + ACTIVE]
    n = min(most, words[w + OBJECTS] - active)
    if words[w + LINKED]:
        index = rows[at + FREE]
        for i in range(n):
            entries[to + i] = base + index
            index = freelists[base + index]
        rows[at + FREE] = index
    else:
        for i in range(n):
            entries[to + i] = base + freelists[base + active + i]
    rows[at + ACTIVE] = active + n
    return n


@kernel
def first_slab(words: IntArray, rows: IntArray, cache: int) -> int:
    """Return the slab that a refill takes from, -1 if nothing is free (``get_first_slab``)."""
    head = LISTS * cache + PARTIAL_LIST
    row = rows[(head << ROW_SHIFT) + NEXT]
    if row != head:
        return row
    words[WORLD + cache * WORDS + FREE_TOUCHED] = 1
    head = LISTS * cache + FREE_LIST
    row = rows[(head << ROW_SHIFT) + NEXT]
    return row if row != head else -1


@kernel
def link_used(words: IntArray, rows: IntArray, cache: int, row: int) -> None:
    """Put a slab from which objects were taken at the head of full or partial."""
    full = rows[(row << ROW_SHIFT) + ACTIVE] == words[WORLD + cache * WORDS + OBJECTS]
    link_after(rows, LISTS * cache + (FULL_LIST if full else PARTIAL_LIST), row)


@kernel
def refill_batch(words: IntArray, entries: IntArray, cache: int, array: int) -> int:
    """Return how many objects a refill asks for."""
    batch = words[WORLD + cache * WORDS + BATCH]
    return batch if entries[array + TOUCHED] else min(batch, BATCH_REFILL_LIMIT)


@kernel
def take_shared(
    words: IntArray, entries: IntArray, cache: int, array: int, shared: int, batch: int
) -> int:
    """Move the newest objects of the shared array into a CPU's empty one (``transfer_objects``)."""
    n = min(entries[shared + AVAIL], batch)
    left = entries[shared + AVAIL] - n
    for i in range(n):
        entries[array + ENTRY + i] = entries[shared + ENTRY + left + i]
    entries[shared + AVAIL] = left
    entries[shared + TOUCHED] = 1
    entries[array + AVAIL] = n
    words[WORLD + cache * WORDS + COUNTS + SHARED_TAKEN] += n
    return n


@kernel
def refill_from_node(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    freelists: IntArray,
    cache: int,
    array: int,
) -> int:
    """Fill a CPU's empty array from what the node has; return how many objects that were."""
    w = WORLD + cache * WORDS
    shared = words[w + SHARED_AT]
    if words[w + LATE] and words[w + FREE_OBJECTS] == 0 and entries[shared + AVAIL] == 0:
        return 0
    words[w + COUNTS + LIST_LOCKS] += 1
    batch = refill_batch(words, entries, cache, array)
    if entries[shared + AVAIL] > 0:
        return take_shared(words, entries, cache, array, shared, batch)
    n = 0
    while n < batch:
        row = first_slab(words, rows, cache)
        if row < 0:
            break
        n += take_from_slab(
            words, entries, rows, freelists, cache, row, array + ENTRY + n, batch - n
        )
        unlink(rows, row)
        link_used(words, rows, cache, row)
        words[w + COUNTS + SLAB_VISITS] += 1
    words[w + FREE_OBJECTS] -= n
    words[w + COUNTS + SLAB_TAKEN] += n
    entries[array + AVAIL] = n
    return n


@kernel
def take_slab_pages(words: IntArray, page_words: IntArray, page_links: IntArray, cache: int) -> int:
    """Take the pages of a new slab; return the first frame or -1 (``kmem_getpages``)."""
    w = WORLD + cache * WORDS
    if not words[w + LATE]:
        words[w + COUNTS + LIST_LOCKS] += 1  # the colour is chosen under the lock
    words[w + COUNTS + PAGE_TAKES] += 1
    frame = take_pages(page_words, page_links, words[w + ORDER], words[MARK_PAGES])
    if frame < 0:
        words[w + COUNTS + PAGE_REFUSALS] += 1
    return frame


@kernel
def start_slab(
    words: IntArray,
    rows: IntArray,
    freelists: IntArray,
    cache: int,
    frame: int,
    manager: int,
) -> int:
    """Make a slab of all free objects in pages; return its row (``cache_init_objs``)."""
    w = WORLD + cache * WORDS
    bits = words[INDEX_BITS]
    row = frame + words[SENTINELS]
    at = row << ROW_SHIFT
    rows[at + ACTIVE] = 0
    rows[at + OWNER] = cache + 1
    rows[at + FREE] = 0
    rows[at + MANAGER_FRAME] = manager >> bits
    rows[at + MANAGER_INDEX] = manager & ((1 << bits) - 1)
    base = frame << bits
    objects = words[w + OBJECTS]
    if words[w + LINKED]:
        for i in range(objects - 1):
            freelists[base + i] = i + 1
        freelists[base + objects - 1] = -1
    else:
        for i in range(objects):
            freelists[base + i] = i
    words[w + SLABS] += 1
    words[PAGES_HELD] += 1 << words[w + ORDER]
    words[w + COUNTS + SLABS_NEW] += 1
    return row


@kernel
def enter_slab(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    freelists: IntArray,
    cache: int,
    array: int,
    row: int,
) -> None:
    """Give a new slab to the node and fill a CPU's empty array from it.

    3.12 puts the slab on the tail of free and refills anew; 5.4 fills the array straight from the
    slab and then puts it where it belongs.
    """
    w = WORLD + cache * WORDS
    words[w + COUNTS + LIST_LOCKS] += 1
    words[w + FREE_OBJECTS] += words[w + OBJECTS]
    if words[w + LATE]:
        batch = refill_batch(words, entries, cache, array)
        n = take_from_slab(words, entries, rows, freelists, cache, row, array + ENTRY, batch)
        link_used(words, rows, cache, row)
        words[w + FREE_OBJECTS] -= n
        words[w + COUNTS + FRESH_TAKEN] += n
        entries[array + AVAIL] = n
    else:
        head = LISTS * cache + FREE_LIST
        link_after(rows, rows[(head << ROW_SHIFT) + PREV], row)
        refill_from_node(words, entries, rows, freelists, cache, array)


@kernel
def refill_plain(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    freelists: IntArray,
    page_words: IntArray,
    page_links: IntArray,
    cache: int,
    array: int,
) -> bool:
    """Fill a CPU's empty array, of a cache with management on-slab; return whether that worked."""
    words[WORLD + cache * WORDS + COUNTS + REFILLS] += 1
    if refill_from_node(words, entries, rows, freelists, cache, array) > 0:
        return True
    frame = take_slab_pages(words, page_words, page_links, cache)
    if frame < 0:
        return False
    row = start_slab(words, rows, freelists, cache, frame, -1)
    enter_slab(words, entries, rows, freelists, cache, array, row)
    return True


@kernel
def take_manager(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    freelists: IntArray,
    page_words: IntArray,
    page_links: IntArray,
    cpu: int,
    cache: int,
) -> int:
    """Take an object of `cache` to hold the management of another cache's slab; return it or -1."""
    w = WORLD + cache * WORDS
    array = words[w + ARRAY_AT] + cpu * words[w + ARRAY_STRIDE]
    if entries[array + AVAIL] == 0 and not refill_plain(
        words, entries, rows, freelists, page_words, page_links, cache, array
    ):
        return -1
    left = entries[array + AVAIL] - 1
    entries[array + AVAIL] = left
    entries[array + TOUCHED] = 1
    words[w + COUNTS + MANAGERS_TAKEN] += 1
    return entries[array + ENTRY + left]


@kernel
def refill(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    freelists: IntArray,
    page_words: IntArray,
    page_links: IntArray,
    cpu: int,
    cache: int,
    array: int,
) -> bool:
    """Fill a CPU's empty array; return whether that worked (``cache_alloc_refill``)."""
    w = WORLD + cache * WORDS
    management = words[w + MANAGEMENT]
    if management < 0:
        return refill_plain(words, entries, rows, freelists, page_words, page_links, cache, array)
    words[w + COUNTS + REFILLS] += 1
    if refill_from_node(words, entries, rows, freelists, cache, array) > 0:
        return True
    frame = take_slab_pages(words, page_words, page_links, cache)
    if frame < 0:
        return False
    manager = take_manager(words, entries, rows, freelists, page_words, page_links, cpu, management)
    if manager < 0:
        give_pages(page_words, page_links, frame, words[w + ORDER])
        words[w + COUNTS + PAGE_GIVES] += 1
        return False
    row = start_slab(words, rows, freelists, cache, frame, manager)
    enter_slab(words, entries, rows, freelists, cache, array, row)
    return True


@kernel
def destroy_surplus(words: IntArray, rows: IntArray, cache: int) -> int:
    """Take slabs off the tail of free down to the free limit; return them, last taken first."""
    w = WORLD + cache * WORDS
    head = LISTS * cache + FREE_LIST
    doomed = -1
    while words[w + FREE_OBJECTS] > words[w + FREE_LIMIT]:
        row = rows[(head << ROW_SHIFT) + PREV]
        if row == head:
            break
        words[w + FREE_OBJECTS] -= words[w + OBJECTS]
        unlink(rows, row)
        rows[(row << ROW_SHIFT) + NEXT] = doomed
        doomed = row
    return doomed


@kernel
def put_object(
    rows: IntArray, freelists: IntArray, row: int, address: int, bits: int, linked: int
) -> int:
    """Make an object free on its slab; return how many of the slab are not (``slab_put_obj``)."""
    at = row << ROW_SHIFT
    active = rows[at + ACTIVE] - 1
    rows[at + ACTIVE] = active
    base = (address >> bits) << bits
    if linked:
        freelists[address] = rows[at + FREE]
        rows[at + FREE] = address - base
    else:
        freelists[base + active] = address - base
    return active


@kernel
def free_block(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    freelists: IntArray,
    cache: int,
    first: int,
    n: int,
) -> int:
    """Put ``entries[first : first + n]`` back on their slabs; return the chain of slabs to destroy.

    3.12 destroys a slab in the midst of this. Nothing that follows here depends on it, so these
    slabs are collected too, in the order in which they fell empty.
    """
    w = WORLD + cache * WORDS
    bits = words[INDEX_BITS]
    sentinels = words[SENTINELS]
    linked = words[w + LINKED]
    late = words[w + LATE]
    partial = LISTS * cache + PARTIAL_LIST
    words[w + COUNTS + SLAB_GIVEN] += n
    if late:
        words[w + FREE_OBJECTS] += n
    doomed = -1
    last = -1
    for i in range(first, first + n):
        address = entries[i]
        row = (address >> bits) + sentinels
        active = put_object(rows, freelists, row, address, bits, linked)
        if not late:
            words[w + FREE_OBJECTS] += 1
        if active > 0:
            tail = rows[(partial << ROW_SHIFT) + PREV]
            if tail != row:
                unlink(rows, row)
                link_after(rows, rows[(partial << ROW_SHIFT) + PREV], row)
            continue
        unlink(rows, row)
        if late or words[w + FREE_OBJECTS] <= words[w + FREE_LIMIT]:
            link_after(rows, LISTS * cache + FREE_LIST, row)
            continue
        words[w + FREE_OBJECTS] -= words[w + OBJECTS]
        rows[(row << ROW_SHIFT) + NEXT] = -1
        if last < 0:
            doomed = row
        else:
            rows[(last << ROW_SHIFT) + NEXT] = row
        last = row
    return destroy_surplus(words, rows, cache) if late else doomed


@kernel
def give_slab(
    words: IntArray,
    rows: IntArray,
    page_words: IntArray,
    page_links: IntArray,
    cache: int,
    row: int,
    locked: int,
) -> None:
    """Give a slab's pages back, without its management (``slab_destroy``)."""
    w = WORLD + cache * WORDS
    rows[(row << ROW_SHIFT) + OWNER] = 0
    give_pages(page_words, page_links, row - words[SENTINELS], words[w + ORDER])
    words[w + SLABS] -= 1
    words[PAGES_HELD] -= 1 << words[w + ORDER]
    words[w + COUNTS + PAGE_GIVES] += 1
    words[w + COUNTS + SLABS_DESTROYED] += 1
    words[w + COUNTS + SLABS_DESTROYED_LOCKED] += locked


@kernel
def destroy_plain(
    words: IntArray,
    rows: IntArray,
    page_words: IntArray,
    page_links: IntArray,
    cache: int,
    doomed: int,
    locked: int,
) -> None:
    """Destroy a chain of slabs of a cache with management on-slab."""
    while doomed >= 0:
        after = rows[(doomed << ROW_SHIFT) + NEXT]
        give_slab(words, rows, page_words, page_links, cache, doomed, locked)
        doomed = after


@kernel
def take_out(entries: IntArray, array: int, n: int) -> None:
    """Remove the `n` oldest objects of an array and move the others down."""
    left = entries[array + AVAIL] - n
    entries[array + AVAIL] = left
    for i in range(array + ENTRY, array + ENTRY + left):
        entries[i] = entries[i + n]


@kernel
def flush_array(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    freelists: IntArray,
    cache: int,
    array: int,
) -> int:
    """Make room in a CPU's full array; return the slabs to destroy (``cache_flusharray``)."""
    w = WORLD + cache * WORDS
    words[w + COUNTS + FLUSHES] += 1
    words[w + COUNTS + LIST_LOCKS] += 1
    n = words[w + BATCH]
    shared = words[w + SHARED_AT]
    avail = entries[shared + AVAIL]
    room = words[w + SHARED_LIMIT] - avail
    doomed = -1
    if room > 0:
        n = min(n, room)
        for i in range(n):
            entries[shared + ENTRY + avail + i] = entries[array + ENTRY + i]
        entries[shared + AVAIL] = avail + n
        words[w + COUNTS + SHARED_GIVEN] += n
    else:
        doomed = free_block(words, entries, rows, freelists, cache, array + ENTRY, n)
    take_out(entries, array, n)
    return doomed


@kernel
def give_manager(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    freelists: IntArray,
    page_words: IntArray,
    page_links: IntArray,
    cpu: int,
    cache: int,
    address: int,
) -> None:
    """Free an object of `cache` that held the management of another cache's slab."""
    w = WORLD + cache * WORDS
    array = words[w + ARRAY_AT] + cpu * words[w + ARRAY_STRIDE]
    if entries[array + AVAIL] == words[w + LIMIT]:
        doomed = flush_array(words, entries, rows, freelists, cache, array)
        destroy_plain(words, rows, page_words, page_links, cache, doomed, 1 - words[w + LATE])
    entries[array + ENTRY + entries[array + AVAIL]] = address
    entries[array + AVAIL] += 1
    words[w + COUNTS + MANAGERS_GIVEN] += 1


@kernel
def destroy(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    freelists: IntArray,
    page_words: IntArray,
    page_links: IntArray,
    cpu: int,
    cache: int,
    doomed: int,
    locked: int,
) -> None:
    """Destroy a chain of slabs: first the pages of each, then its management."""
    management = words[WORLD + cache * WORDS + MANAGEMENT]
    if management < 0:
        destroy_plain(words, rows, page_words, page_links, cache, doomed, locked)
        return
    bits = words[INDEX_BITS]
    while doomed >= 0:
        at = doomed << ROW_SHIFT
        after = rows[at + NEXT]
        manager = (rows[at + MANAGER_FRAME] << bits) + rows[at + MANAGER_INDEX]
        give_slab(words, rows, page_words, page_links, cache, doomed, locked)
        give_manager(
            words, entries, rows, freelists, page_words, page_links, cpu, management, manager
        )
        doomed = after


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
) -> int:
    """Allocate up to `n` objects into ``out[first:]``; return how many were had (``kmalloc``)."""
    w = WORLD + cache * WORDS
    array = words[w + ARRAY_AT] + cpu * words[w + ARRAY_STRIDE]
    got = 0
    while got < n:
        avail = entries[array + AVAIL]
        if avail == 0:
            if not refill(
                words, entries, rows, freelists, page_words, page_links, cpu, cache, array
            ):
                break
            avail = entries[array + AVAIL]
        chunk = min(avail, n - got)
        top = array + ENTRY + avail - 1
        for i in range(chunk):
            out[first + got + i] = entries[top - i]
        entries[array + AVAIL] = avail - chunk
        entries[array + TOUCHED] = 1
        got += chunk
    words[w + COUNTS + ALLOCATED] += got
    words[OBJECTS_OUT] += got
    words[BYTES_OUT] += got * words[w + OBJECT_BYTES]
    settle(words)
    return got


@kernel
def append_run(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    array: int,
    addresses: IntArray,
    start: int,
    step: int,
    most: int,
    owner: int,
) -> int:
    """Append up to `most` objects to an array while they are of cache `owner` - 1; return how many.

    The first of them is known to be.
    """
    bits = words[INDEX_BITS]
    sentinels = words[SENTINELS]
    known = len(rows) >> ROW_SHIFT
    to = array + ENTRY + entries[array + AVAIL]
    same = addresses[start] >> bits  # the slab of the object before; that of the first is known
    n = 0
    while n < most:
        address = addresses[start + n * step]
        frame = address >> bits
        if frame != same:
            row = frame + sentinels
            if row < sentinels or row >= known or rows[(row << ROW_SHIFT) + OWNER] != owner:
                break
            same = frame
        entries[to + n] = address
        n += 1
    entries[array + AVAIL] += n
    return n


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
    how: int,
) -> int:
    """Free `n` objects (``kfree``, ``kfree_bulk``: `how` is `FREED` or `BULK_FREED`).

    Returns how many were freed: fewer than `n` only when an address lies in no slab.
    """
    sentinels = words[SENTINELS]
    done = 0
    while done < n:
        row = (addresses[first + done * step] >> words[INDEX_BITS]) + sentinels
        if row < sentinels or row >= len(rows) >> ROW_SHIFT:
            break
        cache = rows[(row << ROW_SHIFT) + OWNER] - 1
        if cache < 0:
            break
        w = WORLD + cache * WORDS
        array = words[w + ARRAY_AT] + cpu * words[w + ARRAY_STRIDE]
        if entries[array + AVAIL] == words[w + LIMIT]:
            doomed = flush_array(words, entries, rows, freelists, cache, array)
            destroy(
                words, entries, rows, freelists, page_words, page_links,
                cpu, cache, doomed, 1 - words[w + LATE],
            )  # fmt: skip
        most = min(words[w + LIMIT] - entries[array + AVAIL], n - done)
        start = first + done * step
        chunk = append_run(words, entries, rows, array, addresses, start, step, most, cache + 1)
        words[w + COUNTS + how] += chunk
        words[OBJECTS_OUT] -= chunk
        words[BYTES_OUT] -= chunk * words[w + OBJECT_BYTES]
        done += chunk
    settle(words)
    return done


@kernel
def drain_array(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    freelists: IntArray,
    cache: int,
    array: int,
    limit: int,
) -> int:
    """Return a part of an idle array to its slabs; return the chain of slabs to destroy."""
    avail = entries[array + AVAIL]
    if avail == 0:
        return -1
    if entries[array + TOUCHED]:
        entries[array + TOUCHED] = 0
        return -1
    w = WORLD + cache * WORDS
    words[w + COUNTS + DRAINS] += 1
    words[w + COUNTS + LIST_LOCKS] += 1
    n = (limit + 4) // 5
    if n > avail:
        n = (avail + 1) // 2
    doomed = free_block(words, entries, rows, freelists, cache, array + ENTRY, n)
    take_out(entries, array, n)
    return doomed


@kernel
def reap_free(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    freelists: IntArray,
    page_words: IntArray,
    page_links: IntArray,
    cpu: int,
    cache: int,
) -> None:
    """Destroy slabs from the tail of free, a fifth of the free limit (``drain_freelist``)."""
    w = WORLD + cache * WORDS
    fifth = 5 * words[w + OBJECTS]
    head = LISTS * cache + FREE_LIST
    for _ in range((words[w + FREE_LIMIT] + fifth - 1) // fifth):
        row = rows[(head << ROW_SHIFT) + PREV]
        if row == head:
            break
        words[w + COUNTS + LIST_LOCKS] += 1
        words[w + FREE_OBJECTS] -= words[w + OBJECTS]
        unlink(rows, row)
        rows[(row << ROW_SHIFT) + NEXT] = -1
        destroy(words, entries, rows, freelists, page_words, page_links, cpu, cache, row, 0)


@kernel
def reap(
    words: IntArray,
    entries: IntArray,
    rows: IntArray,
    freelists: IntArray,
    page_words: IntArray,
    page_links: IntArray,
    cpu: int,
    now_ns: int,
) -> None:
    """Do a CPU's periodic work on all caches, the youngest first (``cache_reap``)."""
    for k in range(words[CACHES]):
        cache = words[CACHES] - 1 - k
        w = WORLD + cache * WORDS
        locked = 1 - words[w + LATE]
        words[w + COUNTS + REAPS] += 1
        array = words[w + ARRAY_AT] + cpu * words[w + ARRAY_STRIDE]
        doomed = drain_array(words, entries, rows, freelists, cache, array, words[w + LIMIT])
        destroy(words, entries, rows, freelists, page_words, page_links, cpu, cache, doomed, locked)
        if words[w + NEXT_REAP_NS] > now_ns:
            continue
        words[w + NEXT_REAP_NS] = now_ns + NODE_REAP_NS
        array = words[w + SHARED_AT]
        limit = words[w + SHARED_LIMIT]
        doomed = drain_array(words, entries, rows, freelists, cache, array, limit)
        destroy(words, entries, rows, freelists, page_words, page_links, cpu, cache, doomed, locked)
        if words[w + FREE_TOUCHED]:
            words[w + FREE_TOUCHED] = 0
        else:
            reap_free(words, entries, rows, freelists, page_words, page_links, cpu, cache)
    settle(words)


@kernel
def walk_list(rows: IntArray, head: int) -> tuple[int, int]:
    """Return the number of slabs of a list and of the objects that are out of them, by walking it."""
    slabs = 0
    active = 0
    row = rows[(head << ROW_SHIFT) + NEXT]
    while row != head:
        slabs += 1
        active += rows[(row << ROW_SHIFT) + ACTIVE]
        row = rows[(row << ROW_SHIFT) + NEXT]
    return slabs, active
