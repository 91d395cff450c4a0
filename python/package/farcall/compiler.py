"""Compilers of the machine: C source and LLVM's modules to object files."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .errors import CompileError

FLAGS = ("-O2", "-g")
# The interpreter's libraries may lie too far from linked code for 32-bit distances.
IN_PROCESS_FLAGS = (*FLAGS, "-fPIC", "-fno-semantic-interposition")


def c_object(source: str, flags: Sequence[str] = FLAGS, cc: str | None = None) -> bytes:
    """The bytes of the object that the machine's C compiler makes. ``CC`` names another compiler than ``cc``."""
    with tempfile.TemporaryDirectory(prefix="farcall-") as folder:
        target = Path(folder, "module.o")
        command = [*(cc or os.environ.get("CC", "cc")).split(), *flags, "-c", "-x", "c", "-", "-o", str(target)]
        try:
            ended = subprocess.run(command, input=source.encode(), stderr=subprocess.PIPE, check=False)
        except FileNotFoundError as missing:
            raise CompileError(f"no C compiler: {missing}") from None
        if ended.returncode != 0:
            raise CompileError(ended.stderr.decode(errors="replace").strip())
        return target.read_bytes()


def llvm_object(module: Any) -> bytes:
    """The bytes of the object that llvmlite makes of a module: IR as text, ``llvmlite.ir.Module`` or a parsed module."""
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    for initialize in ("initialize", "initialize_native_target", "initialize_native_asmprinter"):
        try:
            getattr(llvm, initialize)()
        except RuntimeError:
            pass  # newer versions initialize LLVM themselves, and say so
    if not isinstance(module, llvm.ModuleRef):
        try:
            module = llvm.parse_assembly(str(module))
            module.verify()
        except RuntimeError as refused:
            raise CompileError(str(refused)) from None
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(opt=2, reloc="pic", codemodel="default")
    return bytes(machine.emit_object(module))
