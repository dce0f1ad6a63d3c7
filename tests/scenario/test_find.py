from __future__ import annotations

from pathlib import Path

import pytest

from rcusim.errors import ScenarioError
from rcusim.scenario.find import LARGEST_FILE_BYTES, find, locate, read_text, shipped


def test_the_shipped_scenarios_are_found_by_name() -> None:
    assert {"burst", "hikey960", "low-memory", "readers"} <= set(shipped())
    assert 'name = "hikey960"' in find("hikey960").read_text(encoding="utf-8")


def test_the_nearest_shipped_name_is_suggested() -> None:
    with pytest.raises(ScenarioError, match=r"did you mean hikey960\?"):
        locate("hikey96")


def test_a_path_wins_over_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "kfree" in read_text(locate("hikey960"), "hikey960")
    (tmp_path / "hikey960").write_text("mine = 1")
    assert read_text(locate("hikey960"), "hikey960") == "mine = 1"


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "is empty"),
        (b" \n\t\n", "is empty"),
        (b"\x7fELF\0\0\0", "is a binary file"),
        (b'name = "\xff"', "is not UTF-8: byte 0xff at offset 8"),
        (b"#" * (LARGEST_FILE_BYTES + 1), "is larger than 1048576 bytes"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, content: bytes, rule: str) -> None:
    with pytest.raises(ScenarioError, match=rule) as caught:
        read_text(write(tmp_path / "a.toml", content), "a.toml")
    assert caught.value.source == "a.toml"


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    assert read_text(write(tmp_path / "a.toml", b"\xef\xbb\xbfseed = 1"), "a") == "seed = 1"


def test_folders_missing_files_and_impossible_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="is a folder"):
        read_text(tmp_path, "x")
    with pytest.raises(ScenarioError, match="cannot be read: No such file"):
        read_text(locate(str(tmp_path / "missing.toml")), "x")
    with pytest.raises(ScenarioError, match="cannot be read"):
        read_text(locate("a/b\0.toml"), "x")
    with pytest.raises(ScenarioError, match="no such file"):
        locate("a\0")


def test_a_file_that_may_not_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(ScenarioError, match="cannot be read: Permission denied"):
        read_text(tmp_path / "a.toml", "a.toml")
