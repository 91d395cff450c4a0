"""Shared libraries that open slowly or have the same names, and debuggers."""

import shutil
import subprocess
import threading

import pytest

import farcall
from conftest import until


def shared_library(folder, source):
    path = folder / "libmade.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", path], input=source.encode(), check=True)
    return path


def test_a_link_ends_in_time_while_a_library_opens(tmp_path):
    busy = tmp_path / "busy"
    busy.touch()
    slow = f"""
        #include <unistd.h>
        __attribute__((constructor)) static void begin(void) {{ if (access("{busy}", F_OK) == 0) sleep(600); }}
        int ready(void) {{ return 7; }}"""
    with farcall.Executor(link_timeout=1) as executor:
        library = executor.add_shared(shared_library(tmp_path, slow))
        library.compile_c("int ready(void); int go(void) { return ready(); }")

        def linked():
            try:
                return library["go"]
            except farcall.CallTimeout:
                return None

        assert linked() is None
        busy.unlink()
        until(linked)
        assert linked()() == 7
    with pytest.raises(ValueError):
        farcall.Executor(link_timeout=-1)


def test_a_library_serves_shared_libraries_as_a_program_does(tmp_path):
    path = shared_library(tmp_path, "int chosen(void) { return 2; } int asks(void) { return chosen(); }")
    for precedes, due in ((False, 2), (True, 1)):
        with farcall.Executor() as executor:
            library = executor.library()
            if precedes:
                library.precede_libraries()
            library.compile_c("int asks(void); int chosen(void) { return 1; } int ask(void) { return asks(); }")
            assert library.add_shared(path)["ask"]() == due


@pytest.mark.skipif(not shutil.which("gdb"), reason="gdb is not installed")
def test_a_debugger_stops_at_breakpoints_of_a_debuggable_executor():
    source = "int watched_step(int number) {\n    return number + 1;\n}\n"
    with farcall.Executor(debuggable=True) as executor:
        step = executor.compile_c(source, ["-O0", "-g"])["watched_step"]
        assert step(1) == 2
        commands = ["set confirm off", "break watched_step", "continue", "backtrace 1", "delete", "detach"]
        command = ["gdb", "-nx", "-batch", "-p", str(executor.pids[0])]
        for one in commands:
            command += ["-ex", one]
        gdb = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        ended = threading.Event()

        def call_until_the_end():
            while not ended.is_set():
                step(41)

        caller = threading.Thread(target=call_until_the_end)
        caller.start()
        try:
            said, _ = gdb.communicate(timeout=120)
        finally:
            gdb.kill()
            ended.set()
            caller.join()
        if "ptrace: Operation not permitted" in said:
            pytest.skip("gdb may not attach to processes here")
        assert "watched_step (number=41)" in said, said
        assert step(2) == 3
