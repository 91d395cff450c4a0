"""The build of the wheel: maturin's, with the executor's program in the package.

`FARCALL_PROFILE` names the profile of cargo; it is `release` otherwise, without symbols.
"""

import json
import os
import re
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
    if profile == "release":
        os.environ.setdefault("CARGO_PROFILE_RELEASE_STRIP", "symbols")
    command = ["cargo", "build", "--profile", profile, "-p", "farcall-cli", "--bin", "farcall-executor"]
    command += ["--locked", "--message-format", "json-render-diagnostics"]
    output = subprocess.run(command, cwd=HERE.parent, check=True, stdout=subprocess.PIPE).stdout
    built = [json.loads(line).get("executable") for line in output.splitlines()]
    program = Path(next(path for path in built if path))
    shutil.copy(program, HERE / "package/farcall/farcall-executor")
    arguments = f"--locked --profile {profile}"
    # The oldest C library that the program runs with names the wheel; maturin checks that it is enough for the module as well.
    versions = [int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", program.read_bytes())]
    if versions:
        os.environ["MATURIN_PEP517_ARGS"] = f"{arguments} --compatibility manylinux_2_{max(versions)}"
        try:
            return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
        except SystemExit:
            print("no wheel for other systems: maturin has said why; the next one is for this system")
    os.environ["MATURIN_PEP517_ARGS"] = arguments
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
