"""Long computations in a process of their own: parts, turns, ends and accidents."""

import asyncio
import os
import subprocess
import sys
from contextlib import aclosing

import pytest

from airpool_web.asked import AskedError
from airpool_web.jobs import MOST_WAITING, Jobs

from . import jobs_of_tests as job


def play(story):
    async def whole():
        jobs = Jobs()
        try:
            return await asyncio.wait_for(story(jobs), 60)
        finally:
            jobs.close()

    return asyncio.run(whole())


async def parts(jobs, *asked):
    return [part async for part in jobs.run(*asked)]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_parts_come_in_order_from_one_process_job_after_job():
    async def story(jobs):
        first, second = await parts(jobs, job.counts, 3), await parts(jobs, job.counts, 2)
        return [*first, *second]

    found = play(story)
    assert [part["k"] for part in found] == [0, 1, 2, 0, 1]
    assert len({part["pid"] for part in found}) == 1
    assert found[0]["pid"] != os.getpid()
    assert not alive(found[0]["pid"])


def test_what_is_long_is_sent_both_ways():
    content = os.urandom(5 * 2**20)
    (found,) = play(lambda jobs: parts(jobs, job.sizes, content))
    assert (found["size"], found["content"]) == (len(content), content)


def test_jobs_wait_for_their_turn_and_too_many_are_refused():
    async def story(jobs):
        running = asyncio.create_task(parts(jobs, job.counts, 2))
        await asyncio.sleep(0)
        waiting = [asyncio.create_task(parts(jobs, job.counts, 1)) for _ in range(MOST_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(AskedError, match="waiting already") as refused:
            await parts(jobs, job.counts, 1)
        assert refused.value.status == 429
        return await running, [await each for each in waiting]

    first, others = play(story)
    assert [part["part"] for part in first] == ["count", "count"]
    assert all([part["part"] for part in each] == ["waiting", "count"] for each in others)


def test_whoever_hangs_up_ends_the_job_and_the_next_one_runs():
    async def story(jobs):
        pids = []
        async with aclosing(jobs.run(job.sleeps, 3600)) as running:  # hangs up between two parts
            pids.append((await anext(running))["pid"])
        pids.append((await parts(jobs, job.counts, 1))[0]["pid"])
        cut = asyncio.create_task(parts(jobs, job.sleeps, 3600))  # hangs up while it waits for one
        await asyncio.sleep(0.2)
        cut.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cut
        pids.append((await parts(jobs, job.counts, 1))[0]["pid"])
        return pids

    pids = play(story)
    assert len(set(pids)) == 3
    assert not any(alive(pid) for pid in pids)


def test_whoever_hangs_up_while_waiting_gives_the_place_back():
    async def story(jobs):
        running = asyncio.create_task(parts(jobs, job.counts, 1))
        await asyncio.sleep(0)
        for _ in range(MOST_WAITING + 2):
            async with aclosing(jobs.run(job.counts, 1)) as waiting:
                assert await anext(waiting) == {"part": "waiting"}
        cut = asyncio.create_task(parts(jobs, job.counts, 1))
        await asyncio.sleep(0)
        cut.cancel()
        return await running, await parts(jobs, job.counts, 1)

    assert [len(each) for each in play(story)] == [1, 1]


def test_a_mistake_of_whoever_asks_keeps_the_process():
    async def story(jobs):
        before = (await parts(jobs, job.counts, 1))[0]["pid"]
        with pytest.raises(AskedError, match="too few devices") as refused:
            await parts(jobs, job.refuses)
        return refused.value.field, before == (await parts(jobs, job.counts, 1))[0]["pid"]

    assert play(story) == ("devices", True)


@pytest.mark.parametrize(
    ("accident", "said"),
    [(job.breaks, "KeyError: 'a fault of the page'"), (job.dies, "before its result")],
)
def test_after_an_accident_the_next_job_runs(accident, said):
    async def story(jobs):
        with pytest.raises(RuntimeError, match=said):
            await parts(jobs, accident)
        return await parts(jobs, job.counts, 1)

    assert len(play(story)) == 1


def test_a_part_that_cannot_be_sent_is_an_error_and_not_a_silence():
    async def story(jobs):
        with pytest.raises((RuntimeError, AskedError)):
            await parts(jobs, job.tells_nonsense)
        return await parts(jobs, job.counts, 1)

    assert len(play(story)) == 1


def test_the_process_outlives_neither_the_page_nor_ctrl_c():
    async def story(jobs):
        pid = (await parts(jobs, job.counts, 1))[0]["pid"]
        os.kill(pid, 2)  # as a terminal does to all of its processes
        assert (await parts(jobs, job.counts, 1))[0]["pid"] == pid
        jobs.close()
        jobs.close()
        return pid

    assert not alive(play(story))


FIRST = """
import asyncio, os, signal
from airpool_web.jobs import Jobs

def says(tell):
    tell({"pid": os.getpid()})

async def pid(jobs):
    return [part["pid"] async for part in jobs.run(says)][0]

async def main():
    jobs = Jobs()
    found = await pid(jobs)
    os.kill(found, signal.SIGINT)
    print(found == await pid(jobs))
    jobs.close()

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_ctrl_c_does_not_reach_the_first_process_of_a_page_either(tmp_path):
    script = tmp_path / "first.py"
    script.write_text(FIRST, "utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == ("True", "")
