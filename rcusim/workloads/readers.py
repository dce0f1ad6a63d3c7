"""Readers: threads that enter read-side critical sections of a given length, with pauses in between.

A section holds off preemption while it runs, as ``rcu_read_lock()`` of a non-preemptible kernel does, or
``preempt_disable()`` in any; readers that are preempted inside a section are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from rcusim.engine.steps import Machine
from rcusim.workloads.base import Field
from rcusim.workloads.programs import ProgramThread


@attrs.frozen
class ReaderKind:
    """Readers of one kind.

    Attributes
    ----------
    label : str
        Part of the threads' names.
    section_ns, gap_ns : int
        Length of a section; mean pause before the next one, drawn uniformly from half to one and a half.
    """

    label: str
    threads: int
    section_ns: int
    gap_ns: int


@attrs.frozen
class ReadersSetting:
    """All readers of a run.

    Attributes
    ----------
    duration_ns : int
        How long they go on; 0 as long as the workload runs.
    """

    kinds: tuple[ReaderKind, ...]
    nice: int
    duration_ns: int


@attrs.define(eq=False)
class ReadersWorkload:
    """The readers; thread ``i`` of all runs on CPU ``i % cpus``, counted from the last CPU down."""

    setting: ReadersSetting
    field: Field
    others_run: Callable[[], bool]
    threads: list[ProgramThread] = attrs.field(factory=list)
    kinds: dict[str, ReaderKind] = attrs.field(factory=dict)
    running: int = 0

    def build(self, first_actor_id: int) -> Sequence[Machine]:
        """Return the readers' machines, asleep."""
        for kind in self.setting.kinds:
            for i in range(kind.threads):
                name, index = f"reader/{kind.label}{i}", len(self.threads)
                cpu = self.field.cpus - 1 - index % self.field.cpus
                thread = ProgramThread.build(
                    self.field, name, cpu, self._read, actor_id=first_actor_id + index
                )
                self.threads.append(thread)
                self.kinds[name] = kind
        self.running = len(self.threads)
        return [thread.program for thread in self.threads]

    def start_delays_ns(self) -> list[int]:
        """Return when each reader first runs: drawn from the seed, within its mean pause."""
        return [
            self.field.choices.choose(
                self.kinds[thread.program.name].gap_ns + 1, f"{thread.program.name} start"
            )
            for thread in self.threads
        ]

    async def _read(self, thread: ProgramThread) -> None:
        field, kind, name = self.field, self.kinds[thread.program.name], thread.program.name
        end_ns = field.now_ns() + self.setting.duration_ns
        while self._goes_on(end_ns):
            async with thread.read_side():
                await thread.run_for(kind.section_ns)
            gap_ns = kind.gap_ns // 2 + field.choices.choose(kind.gap_ns + 1, f"{name} gaps")
            await thread.sleep_until(field.now_ns() + gap_ns)
        self.running -= 1

    def _goes_on(self, end_ns: int) -> bool:
        if self.setting.duration_ns:
            return self.field.now_ns() < end_ns
        return self.others_run()
