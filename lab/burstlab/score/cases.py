"""What is scored: a recorded disk, made so many times as strong, on a gp2 volume of some size."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Final

from burstlab.model.load import Load, LoadError, Recording, Segment
from burstlab.model.load_recording import read_recording
from burstwatch.core.ebs.volume import BURST_IOPS

_ENDING: Final = ".csv.gz"


class Shape(StrEnum):
    """How load behaves inside a recorded step, of which only the mean is known."""

    FLAT = "flat"
    BURSTY = "bursty"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A recording in a folder; the folder's name is that of its set."""

    folder: str
    name: str
    recording: Recording

    @property
    def seconds(self) -> int:
        return len(self.recording.read_iops) * self.recording.step_s


@dataclass(frozen=True, slots=True)
class Bursts:
    """A recording each step of which is one burst at 3,000 IOPS, somewhere in the step, and silence.

    A step whose mean is 3,000 and more is flat: there is no burst above it.
    """

    recording: Recording

    def segment(self, at_s: int, since_s: int) -> Segment:
        step_s = self.recording.step_s
        step, into = divmod(at_s - since_s, step_s)
        row = step % len(self.recording.read_iops)
        reads, writes = self.recording.read_iops[row], self.recording.write_iops[row]
        mean = reads + writes
        end_s = at_s + step_s - into
        if mean <= 0 or mean >= BURST_IOPS:
            return Segment(reads, writes, end_s)
        burst_s = max(1, round(step_s * mean / BURST_IOPS))
        first_s = _place(row, step_s - burst_s)
        if into < first_s:
            return Segment(0, 0, at_s + first_s - into)
        if into < first_s + burst_s:
            times = step_s / burst_s
            return Segment(reads * times, writes * times, at_s + first_s + burst_s - into)
        return Segment(0, 0, end_s)


def _place(row: int, room_s: int) -> int:
    """Where in its step the burst begins: anywhere, and the same in every run."""
    digest = blake2b(row.to_bytes(8, "big"), digest_size=8).digest()
    return int.from_bytes(digest, "big") * (room_s + 1) >> 64


@dataclass(frozen=True, slots=True)
class Scaled:
    """A load made so many times as strong."""

    load: Recording
    scale: float

    def recording(self) -> Recording:
        reads = [self.scale * iops for iops in self.load.read_iops]
        writes = [self.scale * iops for iops in self.load.write_iops]
        return Recording(self.load.step_s, reads, writes)


@dataclass(frozen=True, eq=False)
class Case:
    """One volume under one load for as long as was recorded."""

    recorded: Recorded
    scale: float
    size_gib: int
    shape: Shape

    @property
    def folder(self) -> str:
        return self.recorded.folder

    @property
    def name(self) -> str:
        return f"{self.folder}/{self.recorded.name}*{self.scale:g} on {self.size_gib} GiB, {self.shape}"

    @property
    def seconds(self) -> int:
        return self.recorded.seconds

    @cached_property
    def load(self) -> Load:
        recording = Scaled(self.recorded.recording, self.scale).recording()
        return recording if self.shape is Shape.FLAT else Bursts(recording)

    @property
    def volume_id(self) -> str:
        """The same in every run and for every contender, so that its modifications take as long."""
        return f"vol-0{blake2b(self.name.encode(), digest_size=8).hexdigest()}"


def find_recordings(folders: Sequence[Path]) -> list[Recorded]:
    """Every recording in these folders, and in the folders right below them.

    Raises:
        LoadError: a folder is missing, holds no recording, or one cannot be read.
    """
    found = []
    for folder in folders:
        paths = sorted(_recordings_in(folder))
        if not paths:
            raise LoadError(f"{folder}: no recording; give folders that hold files named *{_ENDING}")
        for path in paths:
            name = path.name.removesuffix(_ENDING)
            found.append(Recorded(folder=path.parent.name, name=name, recording=read_recording(path)))
    return found


def _recordings_in(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        raise LoadError(f"{folder}: no such folder")
    yield from folder.glob(f"*{_ENDING}")
    for below in folder.iterdir():
        if below.is_dir():
            yield from below.glob(f"*{_ENDING}")


def make_cases(
    recordings: Sequence[Recorded],
    *,
    scales: Sequence[float],
    sizes_gib: Sequence[int],
    shapes: Sequence[Shape],
) -> list[Case]:
    """Each recording at each scale on each size, in each shape."""
    return [
        Case(recorded, scale, size_gib, shape)
        for recorded in recordings
        for scale in scales
        for size_gib in sizes_gib
        for shape in shapes
    ]
