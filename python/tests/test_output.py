"""Output of native code, and the notebook."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parent.parent / "examples/farcall.ipynb"


def test_lines_of_native_code_appear_at_once():
    program = """
import farcall
executor = farcall.Executor()
say = executor.compile_c('#include <stdio.h>\\nvoid say(int n) { printf("line %d\\\\n", n); fprintf(stderr, "error %d\\\\n", n); }')["say"]
say(1)
print("between", flush=True)
say(2)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "line 1\nbetween\nline 2\n"
    assert ended.stderr == "error 1\nerror 2\n"


def test_the_notebook_runs_and_shows_output_of_native_code(monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    # IPython's kernel takes output of file descriptors only outside of pytest.
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    text = "".join(output.get("text", "") for output in outputs)
    assert "hello from another process" in text
    assert "SIGSEGV" in text
    assert not any(output.output_type == "error" for output in outputs)


def test_an_interrupt_ends_the_cell_and_not_the_kernel():
    manager = pytest.importorskip("jupyter_client.manager")
    pytest.importorskip("ipykernel")
    kernel, client = manager.start_new_kernel(kernel_name="python3")
    try:
        client.execute_interactive(
            "import farcall; e = farcall.Executor(); "
            "l = e.compile_c('static volatile long n; void spin(void) { for (;;) n++; } int two(void) { return 2; }')",
            timeout=60,
        )
        request = client.execute("l['spin']()")
        time.sleep(1)
        kernel.interrupt_kernel()
        while (reply := client.get_shell_msg(timeout=20))["parent_header"].get("msg_id") != request:
            pass
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        # For a moment after an exception, the kernel aborts what arrives.
        for _ in range(100):
            reply = client.execute_interactive("", user_expressions={"two": "l['two']()"}, timeout=20)
            if reply["content"]["status"] != "aborted":
                break
            time.sleep(0.1)
        assert reply["content"]["user_expressions"]["two"]["data"]["text/plain"] == "2"
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
