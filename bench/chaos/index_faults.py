"""Faults of the index on disk: deleted, replaced by an old copy, and without room to grow."""

import random
import shutil
import subprocess
import sys
import time
from contextlib import suppress

from bench.chaos.world import Stuck, World

_BACKUPS_MAX = 4
_BALLAST_BYTES = 2**20


def _end(world: World, chance: random.Random) -> None:
    """End all services, in order or not."""
    orderly = chance.random() < 0.5
    for service in world.services:
        if orderly:
            service.stop()
        service.kill()


def _start(world: World) -> None:
    for service in world.services:
        service.start()


def deleted(world: World, chance: random.Random) -> None:
    _end(world, chance)
    shutil.rmtree(world.index)
    # They are copies of another index than the one that is made now.
    world.backups.clear()
    _start(world)


def replaced_by_old_backup(world: World, chance: random.Random) -> None:
    """Make a copy while the service runs, and go back to one of the copies made so far."""
    target = world.directory / f"backup-{time.time_ns()}"
    command = [sys.executable, "-m", "streamer", "index", "--directory", str(world.index), "backup", str(target)]
    made = subprocess.run(command, capture_output=True, check=False)
    if made.returncode:
        raise Stuck(f"`streamer index backup` ended with {made.returncode}: {made.stderr.decode()}")
    world.backups.append(target)
    time.sleep(chance.uniform(0, 1))
    _end(world, chance)
    shutil.rmtree(world.index)
    shutil.copytree(chance.choice(world.backups), world.index)
    for old in world.backups[:-_BACKUPS_MAX]:
        shutil.rmtree(old)
    del world.backups[:-_BACKUPS_MAX]
    _start(world)


def why_the_disk_cannot_fill_up(world: World) -> str:
    return world.why_no_room_can_be_taken


def disk_full(world: World, chance: random.Random) -> None:
    ballast = world.room / "ballast"
    try:
        with ballast.open("wb", buffering=0) as stream, suppress(OSError):
            while True:
                stream.write(bytes(_BALLAST_BYTES))
        time.sleep(chance.uniform(0.5, 4))
    finally:
        ballast.unlink()
