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


def test_the_notebook_runs():
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert "SIGSEGV" in "".join(output.get("text", "") for output in outputs)
    assert not any(output.output_type == "error" for output in outputs)


@pytest.fixture
def kernel(monkeypatch):
    """A kernel with a library `l`, and its client."""
    manager = pytest.importorskip("jupyter_client.manager")
    pytest.importorskip("ipykernel")
    # A kernel takes output of file descriptors only outside of pytest.
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    kernel, client = manager.start_new_kernel(kernel_name="python3")
    try:
        client.execute_interactive(
            "import farcall; e = farcall.Executor(); l = e.compile_c('#include <stdio.h>\\n"
            'static volatile long n; void spin(void) { for (;;) n++; } int two(void) { return 2; } void say(void) { puts("hello"); }\')',
            timeout=60,
        )
        yield kernel, client
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)


def test_output_of_native_code_belongs_to_its_cell(kernel):
    _, client = kernel
    request = client.execute("l['say']()")
    # A thread of the kernel reads the output, so it may come behind the end of the cell.
    while True:
        message = client.get_iopub_msg(timeout=20)
        if message["msg_type"] == "stream" and message["parent_header"].get("msg_id") == request:
            break
    assert message["content"] == {"name": "stdout", "text": "hello\n"}


def test_an_interrupt_ends_the_cell_and_not_the_kernel(kernel):
    kernel, client = kernel
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
