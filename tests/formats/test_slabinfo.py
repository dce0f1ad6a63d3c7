from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcusim.formats.slabinfo import COLUMNS, Damage, Slabinfo, SlabinfoRow, Slabs, parse, write
from tests.slab.rig import make_slab

RECORDED = Path(__file__).parent / "data" / "slabinfo_6_18_half.txt"
HEAD = f"slabinfo - version: 2.1\n{COLUMNS}\n"
ROW = SlabinfoRow(
    name="kmalloc-512",
    active_objs=527,
    num_objs=600,
    objsize=512,
    objperslab=8,
    pagesperslab=1,
    limit=54,
    batchcount=27,
    sharedfactor=0,
    active_slabs=75,
    num_slabs=75,
    sharedavail=0,
)
LINE = "kmalloc-512          527    600    512    8    1 : tunables   54   27    0 : slabdata     75     75      0"


def test_a_row_is_printed_as_the_kernel_does() -> None:
    assert ROW.line == LINE
    assert write(Slabinfo(rows=(ROW,))) == f"{HEAD}{LINE}\n"
    assert write(Slabinfo(rows=())) == HEAD


def test_a_long_name_and_large_numbers_push_the_rest_to_the_right() -> None:
    row = attrs.evolve(ROW, name="btrfs_delayed_node", active_objs=12345678)
    assert row.line.startswith("btrfs_delayed_node 12345678    600    512    8    1 : tunables")
    assert parse(write(Slabinfo(rows=(row,)))).rows == (row,)


def test_a_recorded_dump_comes_back_byte_by_byte() -> None:
    text = RECORDED.read_bytes().decode()
    dump = parse(text)
    assert write(dump).encode() == RECORDED.read_bytes()
    assert (len(dump.rows), dump.damaged, dump.version, dump.flags) == (118, (), "2.1", "")
    first = dump.rows[0]
    assert (first.name, first.objsize, first.objperslab) == ("btrfs_delayed_node", 312, 13)
    assert all(row.active_slabs == row.num_slabs for row in dump.rows)


count = st.integers(0, 10**12)
rows = st.builds(
    SlabinfoRow,
    name=st.from_regex(r"[!-~]([ -~]{0,20}[!-~])?", fullmatch=True),
    **{
        field.name: count
        for field in attrs.fields(SlabinfoRow)
        if field.name not in {"name", "globalstat", "cpustat"}
    },
    globalstat=st.sampled_from([(), (1, 2, 3, 4, 5, 6, 7, 8, 9), tuple(range(10**9, 10**9 + 9))]),
    cpustat=st.sampled_from([(), (0, 1, 10**9, 3)]),
)


@given(st.lists(rows, max_size=5))
def test_whatever_is_written_is_read_again(some: list[SlabinfoRow]) -> None:
    some = [row for row in some if not row.name.startswith("# name")]
    dump = Slabinfo(rows=tuple(some))
    assert parse(write(dump)) == dump
    assert write(parse(write(dump))) == write(dump)


@given(st.text(alphabet="kmalloc-51234 67:\t#tunablesd\n", max_size=300))
def test_no_text_is_lost_in_silence(text: str) -> None:
    dump = parse(HEAD + text)
    lines = [line for line in text.split("\n") if line.strip()]
    headings = sum(line.startswith("# name") for line in lines)
    assert len(dump.rows) + len(dump.damaged) >= len(lines) - headings


def test_statistics_are_read_and_written() -> None:
    line = (
        f"{LINE} : globalstat     622    601    77    2    0    1    0    0    3"
        " : cpustat   5123     99   4711     12"
    )
    columns = (
        f"{COLUMNS} : globalstat <listallocs> <maxobjs> <grown> <reaped> <error> <maxfreeable>"
        " <nodeallocs> <remotefrees> <alienoverflow>"
        " : cpustat <allochit> <allocmiss> <freehit> <freemiss>"
    )
    text = f"slabinfo - version: 2.1 (statistics)\n{columns}\n{line}\n"
    dump = parse(text)
    assert dump.flags == "(statistics)"
    assert dump.rows[0].globalstat == (622, 601, 77, 2, 0, 1, 0, 0, 3)
    assert dump.rows[0].cpustat == (5123, 99, 4711, 12)
    assert write(dump) == text


def test_version_2_0_names_two_columns_the_other_way_round_but_has_the_same_values() -> None:
    columns = COLUMNS.replace("<limit> <batchcount>", "<batchcount> <limit>")
    dump = parse(f"slabinfo - version: 2.0\n{columns}\n{LINE}\n")
    assert dump == Slabinfo(rows=(ROW,), version="2.0", columns=columns)
    assert (dump.rows[0].limit, dump.rows[0].batchcount) == (54, 27)
    with pytest.raises(ValueError, match=r"slabinfo 2\.0: only 2\.1 is written"):
        write(dump)
    # early 2.1 had these headings too
    text = f"slabinfo - version: 2.1\n{columns}\n{LINE}\n"
    assert write(parse(text)) == text


def test_version_1_1_of_one_cpu() -> None:
    dump = parse(
        "slabinfo - version: 1.1\n"
        "kmem_cache            53     78    100    2    2    1\n"
        "dnotify cache          0      0     20    0    0    1\n"
        "file lock cache        0     42     92    0    1    1\n"
        "size-64(DMA)           0      0     64    0    0    1\n"
    )
    assert dump.damaged == ()
    assert [row.name for row in dump.rows] == [
        "kmem_cache",
        "dnotify cache",
        "file lock cache",
        "size-64(DMA)",
    ]
    first, second, third, _ = dump.rows
    assert (first.active_objs, first.num_objs, first.objsize) == (53, 78, 100)
    assert (first.active_slabs, first.num_slabs, first.pagesperslab) == (2, 2, 1)
    assert (first.objperslab, second.objperslab, third.objperslab) == (39, 0, 42)


def test_version_1_1_of_several_cpus_and_with_statistics() -> None:
    dump = parse(
        "slabinfo - version: 1.1 (SMP)\n"
        "kmem_cache            64     64    244    4    4    1 :  252  126\n"
    )
    assert dump.flags == "(SMP)"
    assert (dump.rows[0].limit, dump.rows[0].batchcount) == (252, 126)
    dump = parse(
        "slabinfo - version: 1.1 (statistics)\n"
        "kmem_cache            58     84    136    3    3    1 :     58      58     3    0    0\n"
    )
    assert dump.rows[0].globalstat == (58, 58, 3, 0, 0)
    both = "cache 1 2 136 1 1 1 :     58      58     3    0    0 :  252  126 :   1   2   3   4\n"
    row = parse(f"slabinfo - version: 1.1 (statistics) (SMP)\n{both}").rows[0]
    assert (row.globalstat, row.limit, row.cpustat) == ((58, 58, 3, 0, 0), 252, (1, 2, 3, 4))


def test_in_1_1_objects_fill_slabs_evenly() -> None:
    text = "slabinfo - version: 1.1\na 1 7 100 2 2 1\nb 0 7 100 0 0 1\n"
    assert parse(text).damaged == (
        Damage(2, "a 1 7 100 2 2 1", "7 objects do not fill 2 slabs evenly"),
        Damage(3, "b 0 7 100 0 0 1", "7 objects do not fill 0 slabs evenly"),
    )


@pytest.mark.parametrize(
    "line",
    [
        LINE[:-8],
        LINE.replace("600", "6x0"),
        LINE.replace("600", "-600"),
        LINE.replace(": slabdata", "slabdata"),
        LINE.removeprefix("kmalloc-512"),
        LINE + " 7",
        "kmem_cache            53     78    100    2    2    1",
        "cut",
    ],
)
def test_a_damaged_line_is_reported_with_its_number(line: str) -> None:
    dump = parse(f"{HEAD}{LINE}\n{line}\n{LINE}\n")
    assert dump.rows == (ROW, ROW)
    assert dump.damaged == (Damage(4, line, "is no line of slabinfo 2.1"),)


def test_a_dump_without_its_head_is_read_and_the_lack_reported() -> None:
    dump = parse(f"{LINE}\n")
    assert dump.rows == (ROW,)
    assert [(damage.line, damage.text) for damage in dump.damaged] == [(1, LINE)]
    assert "read as 2.1" in dump.damaged[0].reason


def test_blanks_around_lines_do_not_matter() -> None:
    dump = parse(HEAD.replace("\n", "\r\n") + f"  {LINE}  \r\n\r\n{LINE}".replace("   ", "\t"))
    assert (dump.rows, dump.damaged) == ((ROW, ROW), ())


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(ValueError, match=r"slabinfo 1\.2: must be one of 1\.1, 2\.0, 2\.1"):
        parse("slabinfo - version: 1.2\n")


def test_a_slab_can_say_what_slabinfo_shows() -> None:
    slab = make_slab("gen3_byte_index", [512])
    assert isinstance(slab, Slabs)
    assert not isinstance(object(), Slabs)
    shown = slab.slabinfo_row(slab.cache_names.index("kmalloc-512"))
    assert shown.line == (
        "kmalloc-512            0      0    512    8    1"
        " : tunables   54   27    0 : slabdata      0      0      0"
    )
