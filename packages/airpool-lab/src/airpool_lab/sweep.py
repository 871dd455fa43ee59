"""A plain function over a grid of parameters, into a tidy table.

    >>> def area(width, height):
    ...     return {"area": width * height}
    >>> table = run(area, grid(width=[1, 2], height=[3, 4]))
    >>> table.columns["area"]
    [3, 4, 6, 8]

The function takes the parameters by name and returns a number, or a mapping of names to numbers (or texts, or lists of
either). A parameter `rng` or `seed` is passed in. Every point has its own seed and one thread: the same table on every
backend. With a cache, a sweep resumes after an interruption, even a kill, and a larger grid measures only what is new.
Rows of another version of airpool, of the function's own file or of a plug-in's are not used; what else has changed is
not noticed: delete the cache then. A failed point is reported, the others go on, and the next run tries it again.
Points run in this process, or by joblib in a pool of processes or on Ray.
"""

import errno
import hashlib
import inspect
import json
import math
import os
import re
import signal
import socket
import sys
import textwrap
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal, get_args

from threadpoolctl import threadpool_limits

from airpool._support import files, plugins
from airpool._support.extras import load
from airpool._support.progress import Progress, silent
from airpool._support.table import Effort, Failure, Table
from airpool._support.version import __version__, cores, machine, today

__all__ = ["Backend", "Effort", "Failure", "Table", "Workers", "grid", "run"]

Backend = Literal["serial", "pool", "ray"]
Row = dict[str, Any]  # a job is {"key", "parameters", "seed"}; its row has "results", "error" and "seconds" as well
Rows = Generator[Row, None, None]
# Set for workers: a script that starts a sweep when it is merely imported must not start another one there.
_MARK = "AIRPOOL_SWEEP_WORKER"
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@dataclass(frozen=True)
class Workers:
    """A backend and its size.

    count: processes of a pool, or CPUs of Ray; None: all there are.
    address: of a Ray cluster; without one, Ray runs on this machine for as long as the sweep does.
    """

    backend: Backend = "serial"
    count: int | None = None
    address: str | None = None


def grid(**axes: Any) -> list[dict[str, Any]]:
    """Every combination of the values given for each name; the last name varies fastest.

    A value that is no list, tuple, range or array stands for itself. Any list of dictionaries is a grid too.

    >>> grid(devices=[4, 12], noise_std=0.05)
    [{'devices': 4, 'noise_std': 0.05}, {'devices': 12, 'noise_std': 0.05}]
    """
    for name, axis in axes.items():
        several = isinstance(axis, list | tuple | range) or getattr(axis, "shape", ())
        axes[name] = _plain(name, list(axis) if several else [axis])
        if not axes[name]:
            raise ValueError(f"{name} has no values: a grid without points")
    return [dict(zip(axes, combination, strict=True)) for combination in product(*axes.values())]


def run(
    function: Callable[..., Any],
    points: Iterable[Mapping[str, Any]],
    *,
    seed: int = 0,
    cache: Path | None = None,
    backend: Backend | Workers = "serial",
    progress: Progress = silent,
    command: str = "",
) -> Table:
    """The table of a function over points; cached points are not measured again.

    function: any for "serial" without a cache; otherwise one that can be imported by its name.
    backend: by name with its defaults, or `Workers`.
    progress: given the number of points to measure, then advanced by each.
    """
    workers = backend if isinstance(backend, Workers) else Workers(backend)
    _check(workers, seed)
    jobs = _jobs(points, seed)
    _check_parameters(function, [job["parameters"] for job in jobs])
    try:
        name = name_of(function)
    except ValueError:
        if cache is not None or workers.backend != "serial":
            raise
        name = ""
    label = name or getattr(function, "__qualname__", repr(function))
    head = {"function": label, "version": version_of(function)}
    path = cache and Path(cache, f"{re.sub(r'[^A-Za-z0-9_.]', '-', name)}-{head['version'].rpartition('+')[2]}.jsonl")
    rows = _kept(path, head) if path else {}
    todo = [job for job in jobs if job["key"] not in rows]
    start = time.perf_counter()
    if todo:
        where = {"serial": _serial, "pool": _pool, "ray": _ray}[workers.backend]
        measured = where(todo, function if workers.backend == "serial" else name, workers)
        keeping = appending(path) if path else nullcontext(lambda _: None)
        shown = progress("sweeping", len(todo))
        with keeping as keep, shown as advance, closing(measured):
            if not rows:
                keep(head)
            for row in measured:
                keep(row)
                rows[row["key"]] = row
                advance(1)
    work = sum(rows[job["key"]]["seconds"] for job in todo)
    effort = Effort(time.perf_counter() - start, work, len(todo), len(jobs) - len(todo))
    about: dict[str, Any] = {"measured": today(), "machine": machine()} if todo else {}
    return Table.of([rows[job["key"]] for job in jobs], **head, seed=seed, effort=effort, command=command, **about)


# Points


def seed_of(point: Mapping[str, Any], seed: int) -> int:
    """Per-point seed, from the sweep's seed and the parameters alone; 1 and 1.0 share it. 53 bits, exact in JSON."""
    import numpy as np

    def number(text: str) -> float:
        return int(value) if (value := float(text)).is_integer() else value

    text = _canonical(json.loads(_canonical(point), parse_float=number))
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), "<u4")
    return int(np.random.SeedSequence([seed, *words.tolist()]).generate_state(1, np.uint64)[0] >> np.uint64(11))


def _jobs(points: Iterable[Mapping[str, Any]], seed: int) -> list[Row]:
    """A job for each point, each point once."""
    jobs: dict[str, Row] = {}
    for point in points:
        parameters = {name: _plain(name, value) for name, value in point.items()}
        if "rng" in parameters:
            raise ValueError("'rng' cannot be a parameter: the sweep passes it in")
        for name, value in parameters.items():
            if _has_nan(value):
                raise ValueError(f"{name}={value} must be a number")
        own = seed_of(parameters, seed)
        key = _canonical([parameters, own])
        jobs[key] = {"key": key, "parameters": parameters, "seed": own}
    return list(jobs.values())


def _canonical(value: Any) -> str:
    """One text per point, whatever the order of its parameters. 1 and 1.0 differ: a function may tell them apart."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _plain(name: str, value: Any) -> Any:
    """A parameter or a result as JSON returns it, so that its type does not depend on the backend."""
    with suppress(AttributeError, TypeError):
        if _is_cell(found := files.plain(value)):
            return found
    raise ValueError(f"{name}={value!r} must be a number, text, true, false or none, or a list of those")


def _is_cell(value: Any) -> bool:
    return all(map(_is_cell, value)) if isinstance(value, list) else not isinstance(value, dict)


def _has_nan(value: Any) -> bool:
    return any(map(_has_nan, value)) if isinstance(value, list) else isinstance(value, float) and math.isnan(value)


def _check(given: Workers, seed: int) -> None:
    backend, workers, address = given.backend, given.count, given.address
    guard = "use backend='serial' there, and guard the script that starts it with if __name__ == '__main__'"
    rules = {
        f"backend={backend!r} must be one of {', '.join(get_args(Backend))}": backend in get_args(Backend),
        f"a sweep is started within another one's worker: {guard}": backend == "serial" or _MARK not in os.environ,
        f"seed={seed!r} must be a whole number >= 0": type(seed) is int and seed >= 0,
        f"workers={workers} must be at least 1": workers is None or workers >= 1,
        f"workers={workers} needs backend='pool' or 'ray'": backend != "serial" or workers in (None, 1),
        f"address={address!r} needs backend='ray'": backend == "ray" or address is None,
    }
    if broken := [rule for rule, holds in rules.items() if not holds]:
        raise ValueError(broken[0])


def _check_parameters(function: Callable[..., Any], points: Iterable[Mapping[str, Any]]) -> None:
    """A misspelt name is an error now, and not a failure of every point."""
    signature = inspect.signature(function)
    passed = {name: None for name in ("rng", "seed") if name in signature.parameters}
    for point in points:
        try:
            signature.bind(**(passed | dict(point)))
        except TypeError as error:
            known = ", ".join(name for name in signature.parameters if name != "rng")
            name = getattr(function, "__name__", "the function")
            raise ValueError(f"{name}: {error}; its parameters are {known or 'none'}") from None


# The function, and the rows that it has made before


def name_of(function: Callable[..., Any]) -> str:
    """The function's "module:name"; in the script that runs, by the name of its file. A ValueError if it has none."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not name or "<" in name:
        raise ValueError(f"{name or function!r} cannot be found by other processes: it must be a function of a module")
    if module == "__main__":
        main: Any = sys.modules["__main__"]
        script = Path(getattr(main, "__file__", None) or "").resolve()
        module = main.__spec__.name if main.__spec__ else script.stem  # a spec: python -m
        spec = main.__spec__ or (find_spec(module) if module else None)
        if spec is None or Path(spec.origin or "").resolve() != script:
            raise ValueError("a function that is typed in cannot be found by other processes: put it into a file")
    elif named(f"{module}:{name}") is not function:
        raise ValueError(f"{module}:{name} is another function: sweep over one that can be imported by its name")
    return f"{module}:{name}"


def named(name: str) -> Callable[..., Any]:
    """The function "module:name". A ValueError if there is none, or if the module cannot be loaded."""
    if not all(name.partition(":")):
        raise ValueError(f"{name!r} must be module:function, such as experiment:accuracy")
    try:
        return resolve_name(name)
    except AttributeError:
        raise ValueError(f"{name}: the module has no such function") from None
    except Exception as error:
        raise ValueError(f"{name}: the module cannot be loaded: {type(error).__name__}: {error}") from error


def version_of(function: Callable[..., Any]) -> str:
    """airpool's version, with a hash of the file that the function is in and of those of plug-ins."""
    own = getattr(sys.modules.get(getattr(function, "__module__", "")), "__file__", None)
    digests = [hashlib.sha256(Path(file).read_bytes()).digest() for file in (own, *plugins.loaded_files()) if file]
    return f"{__version__}+{hashlib.sha256(b''.join(digests)).hexdigest()[:16]}"


def _kept(path: Path, head: Mapping[str, Any]) -> dict[str, Row]:
    """The rows that a file of this sweep holds, by their key; each names its parameters and its seed."""
    found = records(path)
    if found and found[0] != head:
        raise ValueError(f"{path} is not of {head['function']}, version {head['version']}: delete it")
    return {row["key"]: row for row in found if "key" in row and not row["error"]}


# Points to rows


def _serial(jobs: Sequence[Row], function: Callable[..., Any], workers: Workers) -> Rows:
    """Runs the jobs on one thread, as in a worker: sums over several threads round differently."""
    with suppress(ImportError):
        import_module("torch")  # only what is loaded can be limited
    with threadpool_limits(1):
        for job in jobs:
            yield _measure(job, function)


def _pool(jobs: Sequence[Row], name: str, workers: Workers) -> Rows:
    """In processes of joblib's, new ones for every sweep: they import the code as it is now."""
    load("joblib", "backend='pool'")
    from joblib import parallel_config
    from joblib.externals.loky import get_reusable_executor

    own = [str(path) for path in plugins.loaded_files()]
    try:
        with parallel_config("loky", inner_max_num_threads=1, initializer=_begin, initargs=(os.getpid(), own)):
            yield from _spread(jobs, name, workers.count or cores(), BrokenProcessPool)
    finally:
        executor: Any = get_reusable_executor
        executor(reuse=True).shutdown(kill_workers=True)


def _begin(parent: int, plugin_files: Sequence[str]) -> None:
    """A worker's start. It reads nothing, prints to stderr and ends with its parent, to which it leaves Ctrl-C."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.1)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch, daemon=True).start()
    os.environ[_MARK] = "1"
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    for path in plugin_files:
        plugins.load_file(path)


def _ray(jobs: Sequence[Row], name: str, workers: Workers) -> Rows:
    """On the actors of Ray's backend of joblib, of one CPU each.

    A connection that the caller has made is used and left as it is; airpool and the function must be importable there.
    """
    # Ray sends no reports, does as its next release will instead of warning, and keeps to 127.0.0.1 if it is local.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if workers.address is None:
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    ray = load("ray", "backend='ray'")
    from joblib import parallel_config
    from ray.util.joblib.ray_backend import RayBackend  # pyright: ignore[reportMissingImports]

    class Streaming(RayBackend):
        supports_return_generator = True  # joblib's own pool does not: Ray's calls back for every task

    if mine := not ray.is_initialized():
        try:
            ray.init(log_to_driver=False, logging_level="ERROR", **_cluster(name, workers))
        except Exception as error:
            raise ConnectionError(f"no Ray cluster can be used at {workers.address}: {_message(error, 240)}") from error
    kept = {each: os.environ[each] for each in os.environ.keys() & {"ONEDNN_MAX_CPU_ISA"}}  # a processor's remedy
    own = {"env_vars": dict.fromkeys((*_THREADS, _MARK), "1") | kept}
    cpus = int(ray.cluster_resources().get("CPU", 1))
    try:
        backend = Streaming(ray_remote_args={"num_cpus": 1, "runtime_env": own})
        with parallel_config(backend):
            yield from _spread(jobs, name, min(workers.count or cpus, cpus), ray.exceptions.RayError)
    finally:
        if mine:
            ray.shutdown()


def _cluster(function: str, workers: Workers) -> dict[str, Any]:
    """Options with which Ray is started: on this machine, or for the cluster at an address, which is sent the code."""
    if workers.address is None:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        small = {"include_dashboard": False, "object_store_memory": 128 * 2**20}
        number = max(2, workers.count or cores())
        return {"address": "local", "num_cpus": number, "runtime_env": {"env_vars": {"PYTHONPATH": path}}, **small}
    host, _, port = workers.address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():  # Ray itself would wait for many minutes
        socket.create_connection((host, int(port)), timeout=10).close()
    modules = {"airpool", __name__.partition(".")[0], re.split(r"\W", function)[0]}
    tops = [Path(inspect.getfile(import_module(module))) for module in modules]
    own = {each for top in tops for each in ([top.parent] if top.name == "__init__.py" else top.parent.glob("*.py"))}
    return {"address": workers.address, "runtime_env": {"py_modules": sorted(map(str, own))}}


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C waits until the workers are started: they inherit that, and end with their parent alone."""
    from multiprocessing.resource_tracker import ensure_running

    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    ensure_running()  # its start would let Ctrl-C through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _spread(jobs: Sequence[Row], name: str, count: int, lost: type[Exception]) -> Rows:
    """The rows of joblib's workers, as they come. lost: the error after the death of a worker, which ends all of them.

    The points that were under way then run again one by one: the one that ends its worker is reported.
    """
    from joblib import Parallel, delayed

    parallel: Any = Parallel  # its annotations are those of its defaults
    left = {job["key"]: job for job in jobs}
    alone: list[Row] = []
    while left:
        now = alone[:1] or list(left.values())
        waiting = iter(now)
        calls = (delayed(_measure)(job, name) for job in waiting)
        # A second worker, and no work for it, where one is asked for: joblib would do without any.
        spread = parallel(max(2, count), pre_dispatch=count, batch_size=1, return_as="generator_unordered")
        with _interrupts_held():
            rows = spread(calls)
        try:
            for row in rows:
                del left[row["key"]]
                yield row
        except lost as error:
            if not alone:
                untouched = [job["key"] for job in waiting]
                alone = [job for key, job in left.items() if key not in untouched]
                continue
            yield _failed(left.pop(now[0]["key"]), f"its process died: {_end(error)}")
        finally:
            with warnings.catch_warnings(action="ignore"):  # of the points that an early end stops
                rows.close()
        alone = alone[1:]


def _end(error: Exception) -> str:
    """How a worker ended: by its signal or its exit status, where joblib has them."""
    if (codes := re.search(r"\{(.*)\}", str(error))) is None:
        return _message(error, 240)
    return codes[1] + ", perhaps for lack of memory" * ("SIGKILL" in codes[1])


def _measure(job: Row, function: Callable[..., Any] | str) -> Row:
    """The row of a job: calls the function (or that of this name), with a generator `rng` or the `seed` if wanted."""
    given, start = dict(job["parameters"]), time.perf_counter()
    try:
        function = named(function) if isinstance(function, str) else function
        wanted = inspect.signature(function).parameters.keys() - given.keys()
        if "rng" in wanted:
            import numpy as np

            given["rng"] = np.random.default_rng(job["seed"])
        if "seed" in wanted:
            given["seed"] = job["seed"]
        start = time.perf_counter()
        returned = function(**given)
        seconds = time.perf_counter() - start
        cells = dict(returned) if isinstance(returned, Mapping) else {"value": returned}
        if again := cells.keys() & {*job["parameters"], "seed"}:
            raise ValueError(f"{again.pop()!r} is returned, but is a column already")
        return job | {"results": {k: _plain(k, cell) for k, cell in cells.items()}, "error": None, "seconds": seconds}
    except (Exception, SystemExit) as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
        where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
        return _failed(job, _message(error) + where, time.perf_counter() - start)


def _failed(job: Row, error: str, seconds: float = 0.0) -> Row:
    return job | {"results": None, "error": error, "seconds": seconds}


def _message(error: BaseException, width: int = 10**6) -> str:
    return textwrap.shorten(f"{type(error).__name__}: {error}", width, placeholder=" ...")


@contextmanager
def appending(path: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yields the function that adds a record to a file of JSON lines, each one write behind a checksum.

    A kill costs at most the record being written, two processes may append at the same time, and a damaged line is a
    missing record, never a wrong one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def append(record: dict[str, Any]) -> None:
        text = json.dumps(record).encode()
        line = b"\n" + _checksum(text) + text + b"\n"
        try:
            if os.write(file, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            if os.fstat(file).st_size == 0:
                path.unlink(missing_ok=True)
            raise OSError(error.errno, error.strerror, str(path)) from None

    try:
        yield append
        os.fsync(file)
    finally:
        os.close(file)


def records(path: Path) -> list[dict[str, Any]]:
    """The whole records of a file written by `appending`; none if there is no such file."""
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    return [json.loads(line[17:]) for line in lines if line[:17] == _checksum(line[17:])]


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest()[:16].encode() + b" "
