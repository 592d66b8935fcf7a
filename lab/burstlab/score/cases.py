"""The cases: a recorded disk, scaled by a factor, on a gp2 volume of some size."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Final

from burstlab.model.loads.load import Load, LoadError, Recording, Segment
from burstlab.model.loads.load_recording import read_recording
from burstwatch.core.ebs.volume import BURST_IOPS

_SUFFIX: Final = ".csv.gz"


class LoadShape(StrEnum):
    """The load inside a recorded step, of which only the mean is known."""

    FLAT = "flat"
    BURSTY = "bursty"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRecording:
    """A recording in a folder; the folder's name is that of its set."""

    folder: str
    name: str
    recording: Recording

    @property
    def duration_s(self) -> int:
        return len(self.recording.read_iops) * self.recording.step_s


@dataclass(frozen=True, slots=True)
class BurstyLoad:
    """A recording in which each step is one burst at ``burst_iops``, somewhere in the step, and nothing else.

    A step whose mean is that much and more is flat: there is no burst above it.
    """

    recording: Recording
    burst_iops: float = BURST_IOPS

    def segment(self, at_s: int, since_s: int) -> Segment:
        step_s = self.recording.step_s
        step, offset_s = divmod(at_s - since_s, step_s)
        row = step % len(self.recording.read_iops)
        reads, writes = self.recording.read_iops[row], self.recording.write_iops[row]
        mean_iops = reads + writes
        ends_at_s = at_s + step_s - offset_s
        if mean_iops <= 0 or mean_iops >= self.burst_iops:
            return Segment(reads, writes, ends_at_s)
        burst_s = max(1, round(step_s * mean_iops / self.burst_iops))
        burst_offset_s = _burst_offset_s(row, step_s - burst_s)
        if offset_s < burst_offset_s:
            return Segment(0, 0, at_s + burst_offset_s - offset_s)
        if offset_s < burst_offset_s + burst_s:
            factor = step_s / burst_s
            return Segment(reads * factor, writes * factor, at_s + burst_offset_s + burst_s - offset_s)
        return Segment(0, 0, ends_at_s)


def _burst_offset_s(row: int, max_offset_s: int) -> int:
    """Where in its step the burst begins: anywhere, and the same in every run."""
    digest = blake2b(row.to_bytes(8, "big"), digest_size=8).digest()
    return int.from_bytes(digest, "big") * (max_offset_s + 1) >> 64


@dataclass(frozen=True, slots=True)
class ScaledRecording:
    """A load multiplied by a factor."""

    load: Recording
    scale: float

    def to_recording(self) -> Recording:
        reads = [self.scale * iops for iops in self.load.read_iops]
        writes = [self.scale * iops for iops in self.load.write_iops]
        return Recording(self.load.step_s, reads, writes)


@dataclass(frozen=True, eq=False)
class Case:
    """One volume under one load for as long as was recorded."""

    recorded: NamedRecording
    scale: float
    size_gib: int
    shape: LoadShape

    @property
    def folder(self) -> str:
        return self.recorded.folder

    @property
    def name(self) -> str:
        return f"{self.folder}/{self.recorded.name}*{self.scale:g} on {self.size_gib} GiB, {self.shape}"

    @property
    def duration_s(self) -> int:
        return self.recorded.duration_s

    @cached_property
    def load(self) -> Load:
        recording = ScaledRecording(self.recorded.recording, self.scale).to_recording()
        return recording if self.shape is LoadShape.FLAT else BurstyLoad(recording)

    @property
    def volume_id(self) -> str:
        """The same in every run and for every contender, so that its modifications take as long."""
        return f"vol-0{blake2b(self.name.encode(), digest_size=8).hexdigest()}"


def find_recordings(directories: Sequence[Path]) -> list[NamedRecording]:
    """Every recording in these folders, and in the folders right below them.

    Raises:
        LoadError: a folder is missing, holds no recording, or one cannot be read.
    """
    recordings = []
    for directory in directories:
        paths = sorted(_find_recording_files(directory))
        if not paths:
            raise LoadError(f"{directory}: no recording; give folders that hold files named *{_SUFFIX}")
        for path in paths:
            name = path.name.removesuffix(_SUFFIX)
            recordings.append(
                NamedRecording(folder=path.parent.name, name=name, recording=read_recording(path))
            )
    return recordings


def _find_recording_files(directory: Path) -> Iterator[Path]:
    if not directory.is_dir():
        raise LoadError(f"{directory}: no such folder")
    yield from directory.glob(f"*{_SUFFIX}")
    for subdirectory in directory.iterdir():
        if subdirectory.is_dir():
            yield from subdirectory.glob(f"*{_SUFFIX}")


def make_cases(
    recordings: Sequence[NamedRecording],
    *,
    scales: Sequence[float],
    sizes_gib: Sequence[int],
    shapes: Sequence[LoadShape],
) -> list[Case]:
    """Each recording at each scale on each size, in each shape."""
    return [
        Case(recorded, scale, size_gib, shape)
        for recorded in recordings
        for scale in scales
        for size_gib in sizes_gib
        for shape in shapes
    ]
