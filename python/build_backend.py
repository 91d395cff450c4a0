"""The build of the wheel: maturin's, with the executor's program in the package.

`FARCALL_PROFILE` names the profile of cargo; it is `release` otherwise.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import maturin
from maturin import (  # noqa: F401  (the hooks of PEP 517 that need no more)
    build_sdist,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_wheel,
)

HERE = Path(__file__).parent


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    profile = os.environ.get("FARCALL_PROFILE", "release")
    command = ["cargo", "build", "--profile", profile, "-p", "farcall-cli", "--bin", "farcall-executor"]
    command += ["--locked", "--message-format", "json-render-diagnostics"]
    output = subprocess.run(command, cwd=HERE.parent, check=True, stdout=subprocess.PIPE).stdout
    built = [json.loads(line).get("executable") for line in output.splitlines()]
    program = next(path for path in built if path)
    shutil.copy(program, HERE / "package/farcall/farcall-executor")
    os.environ["MATURIN_PEP517_ARGS"] = f"--locked --profile {profile}"
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
