"""The temporary folder of `airpool up`: gone afterwards, whatever ends the process."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from airpool_runtime import up

HOLDS = """
import sys
from airpool_runtime import up
with up.vanishing_folder("airpool-test-") as folder:
    (folder / "identities").mkdir()
    (folder / "identities" / "identity.key").write_text("SECRET")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_the_folder_is_gone_after_the_block_and_after_an_error():
    with up.vanishing_folder("airpool-test-") as kept:
        (kept / "file").write_text("x")
        assert kept.stat().st_mode & 0o777 == 0o700
    assert not kept.exists()
    with pytest.raises(KeyError), up.vanishing_folder("airpool-test-") as kept:
        raise KeyError
    assert not kept.exists()


@pytest.mark.check
def test_a_kill_leaves_no_key_behind():
    process = subprocess.Popen([sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert (folder / "identities" / "identity.key").read_text() == "SECRET"
        process.kill()
    for _ in range(300):
        if not folder.exists():
            break
        time.sleep(0.1)
    assert not folder.exists()
