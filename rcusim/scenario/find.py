"""Where scenario files are: a path, or the name of one that comes with rcusim."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from rcusim.errors import Problem, ScenarioError
from rcusim.scenario.fields import nearest

LARGEST_FILE_BYTES = 1 << 20


def _folder() -> Traversable:
    """Return the folder of shipped scenarios: in an installed package, beside it in a checkout."""
    package = resources.files("rcusim")
    inside = package / "scenarios"
    if inside.is_dir():
        return inside
    return Path(str(package)).parent / "scenarios"


def shipped() -> list[str]:
    """Return the names of the scenarios that come with rcusim."""
    folder = _folder()
    if not folder.is_dir():
        return []
    files = (entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return sorted(file.removesuffix(".toml") for file in files)


def find(name: str) -> Traversable:
    """Return the shipped scenario file of that name.

    Raises
    ------
    ScenarioError
        When there is none.
    """
    names = shipped()
    if name not in names:
        listed = ", ".join(names)
        rule = f"no such file, and not a shipped scenario ({listed}){nearest(name, names)}"
        raise ScenarioError(name, [Problem("file", "", rule)])
    return _folder() / f"{name}.toml"


def locate(source: str | Path) -> Traversable:
    """Return the file that a path or a bare name stands for; a path wins over a name."""
    path = Path(source)
    if isinstance(source, str) and path.name == source and path.suffix != ".toml":
        return path if _exists(path) else find(source)
    return path


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def read_text(file: Traversable, source: str) -> str:
    """Return the text of a scenario file.

    Raises
    ------
    ScenarioError
        When it cannot be read, is a folder, is empty, too large, or no text.
    """
    raw = _read_bytes(file, source)
    if not raw.strip():
        raise ScenarioError(source, [Problem("file", "", "is empty")])
    if len(raw) > LARGEST_FILE_BYTES:
        raise ScenarioError(
            source, [Problem("file", "", f"is larger than {LARGEST_FILE_BYTES} bytes")]
        )
    if b"\0" in raw:
        raise ScenarioError(
            source, [Problem("file", "", "is a binary file, not a scenario in TOML")]
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        rule = f"is not UTF-8: byte {raw[error.start]:#04x} at offset {error.start}"
        raise ScenarioError(source, [Problem("file", "", rule)]) from None


def _read_bytes(file: Traversable, source: str) -> bytes:
    try:
        if not file.is_dir():
            with file.open("rb") as stream:
                return stream.read(LARGEST_FILE_BYTES + 1)
        reason = "is a folder, not a scenario file"
    except (OSError, ValueError) as error:
        reason = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    raise ScenarioError(source, [Problem("file", "", reason)])
