"""Inject failing system calls: every call of a command fails once; no data is lost, no partial file is accepted.

A command runs once while its calls below its folder are logged. Then, for every call, it runs again from the same start
and that call fails, in each way that its kind can fail. After each such run
- the process has ended by itself, with 0 or with a reason and the exit code 1 or 2;
- every file is as before the command or as after it, but for those that `halfway` knows and their readers check;
- if the exit code is 0, everything is as after an undisturbed run;
- the same command, now undisturbed, ends as ever, and leaves no temporary file.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

from tests.stress.counts import Counts
from tests.stress.interposed import Call, Ended, Fault, Interposed
from tests.stress.scenarios import Scenario, Tree, content, litter, scenarios, tree

from conjoin.training.checkpoint import saved_place

CHANGES = ("create", "write", "sync", "rename", "unlink", "rmdir", "mkdir", "link", "truncate")
FULL = ("create", "write", "mkdir", "link", "truncate")
ANY = (*CHANGES, "open", "read", "stat", "list", "map", "close")
WAYS: dict[str, list[tuple[str, str, tuple[str, ...]]]] = {
    "open": [("EIO", "fail", ()), ("EMFILE", "fail", ())],
    "create": [("ENOSPC", "fail", FULL), ("EIO", "fail", ())],
    "read": [("EIO", "fail", ()), ("EIO", "short", ()), ("EINTR", "fail", ())],
    "write": [
        ("ENOSPC", "fail", FULL),
        ("EIO", "torn", ()),
        ("EIO", "short", ()),
        ("EDQUOT", "fail", ()),
        ("EINTR", "fail", ()),
    ],
    "sync": [("EIO", "lose", ()), ("ENOSPC", "fail", ()), ("EIO", "lose", CHANGES)],
    "rename": [("EIO", "fail", ()), ("ENOSPC", "fail", FULL)],
    "unlink": [("EIO", "fail", ())],
    "rmdir": [("EIO", "fail", ())],
    "mkdir": [("ENOSPC", "fail", FULL), ("EIO", "fail", ())],
    "truncate": [("ENOSPC", "fail", FULL), ("EIO", "fail", ())],
    "link": [("EIO", "fail", ()), ("EMLINK", "fail", ())],
    "close": [("EIO", "fail", ())],
    "map": [("ENOMEM", "fail", ())],
    "stat": [("EIO", "fail", ())],
    "list": [("EIO", "fail", ())],
}
"""By kind of call: error, what happens, and the kinds that fail from then on."""
CLEANING = ("unlink", "rmdir", "list", "stat", "open", "close")
"""Kinds of call that removing files consists of: where one of them fails, a temporary file may stay."""
CHECKPOINT = "checkpoint.safetensors"
GONE: tuple[str, str, tuple[str, ...]] = ("EIO", "fail", ANY)
"""The disk is gone from this call on."""


IN_EVERY_WAY = ("create", "sync", "rename", "mkdir", "rmdir", "unlink", "truncate", "link")
"""Kinds of call that decide what a folder holds: each fails in all of its ways. The others take turns."""


def planned(calls: Sequence[Call]) -> Iterator[Fault]:
    """Every call fails once, or in every way that its kind can fail."""
    turns: Counter[str] = Counter()
    for call in calls:
        ways = [*WAYS[call.kind], GONE]
        if call.kind not in IN_EVERY_WAY:
            ways = [ways[turns[call.kind] % len(ways)]]
            turns[call.kind] += 1
        for error, how, lasting in ways:
            yield Fault(call, error, how, lasting)


@dataclass
class Findings:
    """What the faults of one scenario led to."""

    calls: int = 0
    faults: int = 0
    refused: int = 0
    harmless: int = 0
    not_reached: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Trial:
    """A scenario with its start and its undisturbed end."""

    scenario: Scenario
    start: Path
    before: Tree
    after: Tree
    names_before: set[str]
    names_after: set[str]
    said: str

    def problem(self, processes: Interposed, work: Path, fault: Fault) -> tuple[str, Ended]:
        """Run with the fault, and then without; what is wrong, if anything."""
        scenario = self.scenario
        _copy(self.start, work)
        ended = processes.run(scenario.words, work, fault, call=scenario.call)
        try:
            self._check_end(ended)
            if ended.injected:
                self._check_files(work, ended, fault)
            if self._settled(work):
                return "", ended
            refused = scenario.rerun_refused
            if not refused or not (work / refused).exists():
                again = processes.run(scenario.again or scenario.words, work, call=scenario.call)
                assert again.code == 0, f"the same command again ends with {again.code}: {again.said[-600:]}"
            files = {**tree(work), **{name: self.after[name] for name in scenario.drawn if (work / name).exists()}}
            _same(self.after, files, optional=(), what="after the same command again")
            left = litter(work)
            assert not left or fault.lasting or fault.call.kind in CLEANING, f"left behind: {left}"
        except AssertionError as error:
            return f"{scenario.name}: {fault}: {error}", ended
        return "", ended

    def _settled(self, work: Path) -> bool:
        """Is everything as at the end of an undisturbed run, or untouched, from where a run is an undisturbed one?"""
        names, files = _names(work), tree(work)
        return (names, files) in ((self.names_before, self.before), (self.names_after, self.after))

    def _check_end(self, ended: Ended) -> None:
        assert ended.code is not None, f"it hangs: {ended.said[-600:]}"
        assert ended.code in (0, 1, 2), f"exit code {ended.code}: {ended.said[-1500:]}"
        for word in ("Traceback", "Exception ignored"):
            assert word not in ended.said, ended.said[-1500:]
        if ended.code:
            assert "error" in ended.said.lower() or "failed" in ended.said, f"no reason given: {ended.said[-600:]}"

    def _check_files(self, work: Path, ended: Ended, fault: Fault) -> None:
        now = tree(work)
        if ended.code == 0 and not self.scenario.excused(work):
            _same(self.after, now, optional=self.scenario.optional, what="after a good end")
            if self.scenario.answers:
                assert self.said in ended.said, f"another answer: {ended.said[-600:]}"
        for name, found in now.items():
            if ended.code == 0:
                break
            if name.endswith(CHECKPOINT) and name in self.before:
                assert saved_place(work / name) >= saved_place(self.start / name), "an older checkpoint than before"
            known = [files[name] for files in (self.before, self.after) if name in files]
            halfway = found not in known and not self.scenario.halfway(work / name, found, self.after.get(name))
            assert not halfway, f"{name} is neither as before nor as after"
        lost = [name for name in self.before if name not in now and (name in self.after or self._needed(work, name))]
        aside = [content(work / name) for name in litter(work) if (work / name).is_file()]
        lost = [name for name in lost if self.before[name] not in aside]
        assert not lost, f"lost: {lost}"
        for beginning in self.scenario.together if ended.code else ():
            parts = [
                {name: found for name, found in files.items() if name.startswith(beginning)}
                for files in (now, self.before, self.after)
            ]
            gone = "rename" in fault.lasting
            excused = gone and (not parts[0] or self.scenario.one_by_one or self.scenario.refused(work))
            assert parts[0] in parts[1:] or excused, f"{beginning} is a mixture of before and after"
        left = litter(work)
        assert not left or fault.lasting or fault.call.kind in CLEANING, f"left behind by the failure: {left}"

    def _needed(self, work: Path, name: str) -> bool:
        """Is it the checkpoint of a run that is not done?"""
        return name.endswith(CHECKPOINT) and not (work / name.replace(CHECKPOINT, "result.json")).exists()


def _copy(start: Path, work: Path) -> None:
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(start, work)


def _same(expected: Tree, found: Tree, *, optional: Sequence[str], what: str) -> None:
    found = {name: octets for name, octets in found.items() if not _stale(name, found)}
    missing = [name for name in expected if name not in found and name not in optional]
    assert not missing, f"{what}: missing {missing}"
    extra = [name for name in found if name not in expected]
    assert not extra, f"{what}: files that do not belong there: {extra}"
    other = [name for name in found if found[name] != expected[name]]
    assert not other, f"{what}: other content in {other}"


def _stale(name: str, files: Tree) -> bool:
    """Is it of the checkpoint of a run that is done? A failure after result.json leaves it, and nothing reads it."""
    folder, found, _ = name.rpartition("checkpoint/") if "checkpoint/" in name else name.rpartition(CHECKPOINT)
    return bool(found) and f"{folder}result.json" in files


def _names(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def record(scenario: Scenario, processes: Interposed, place: Path) -> tuple[Trial, list[Call]]:
    """The undisturbed run and its calls. Those that no second run makes are left to chance, and not counted."""
    start, work = place / "start", place / "undisturbed"
    start.mkdir(parents=True)
    scenario.make(processes, start)
    seen: list[set[Call]] = []
    for _ in range(2):
        _copy(start, work)
        ended = processes.run(scenario.words, work, call=scenario.call)
        assert ended.code == 0, ended.said
        seen.append(set(ended.calls))
    calls = [call for call in ended.calls if call in seen[0]]
    return Trial(scenario, start, tree(start), tree(work), _names(start), _names(work), ended.said), calls


def inject(
    place: Path, servers: Sequence[Interposed], *, every: int, only: Sequence[str] = ()
) -> Iterator[tuple[str, Findings]]:
    """Make every nth fault of every scenario happen, on all servers at once; what each scenario led to."""
    idle: SimpleQueue[Interposed] = SimpleQueue()
    for server in servers:
        idle.put(server)
    for number, scenario in enumerate(scenarios()):
        if only and scenario.name not in only:
            continue
        home = place / f"scenario-{number}"
        trial, calls = record(scenario, servers[0], home)
        step = every * scenario.thin
        chosen = [*planned(calls)][number % step :: step]
        findings = Findings(len(calls))

        def one(fault: Fault, trial: Trial = trial, home: Path = home) -> tuple[str, Ended]:
            server = idle.get()
            try:
                return trial.problem(server, home / server.place.name, fault)
            finally:
                idle.put(server)

        with ThreadPoolExecutor(len(servers)) as pool:
            for problem, ended in pool.map(one, chosen):
                findings.faults += 1
                findings.not_reached += not ended.injected
                findings.refused += bool(ended.injected and ended.code)
                findings.harmless += bool(ended.injected and ended.code == 0)
                if problem:
                    findings.problems.append(problem)
        shutil.rmtree(home)
        yield scenario.name, findings


def fail_every_call(place: Path, servers: Sequence[Interposed], *, every: int, only: Sequence[str] = ()) -> Counts:
    """Every nth way in which a call can fail, for every call of every scenario."""
    found = dict(inject(place, servers, every=every, only=only))
    problems = [problem for each in found.values() for problem in each.problems]
    assert not problems, "\n".join([f"{len(problems)} problems", *problems[:20]])
    sums: Counter[str] = Counter()
    for each in found.values():
        sums.update(
            {
                "system calls that failed": each.faults,
                "of them refused with a reason": each.refused,
                "of them without effect": each.harmless,
                "of them not reached again": each.not_reached,
                "different calls": each.calls,
            }
        )
    return {"commands": len(found), **sums, "files half-written and believed": 0, "files lost": 0}
