"""The blocking functions in a real Jupyter kernel, whose event loop is running while a cell does."""

from __future__ import annotations

from pathlib import Path

import nbclient
import nbformat
import pytest

CELLS = (
    (
        "import asyncio, mainspring\nfrom mainspring.testing import scripted_model\n"
        "assert asyncio.get_running_loop().is_running()"
    ),
    "reply = mainspring.run('hi', model=scripted_model('Hello.'))\nassert reply.text == 'Hello.'",
    "reply = await mainspring.run_async('hi', model=scripted_model('Again.'))\nassert reply.text == 'Again.'",
    "step = mainspring.run_step(['echo', 'hi'])\nassert step.stdout == b'hi\\n', step",
    (
        "open('agent.sh', 'w').write(\"cat > prompt; echo '<promise>DONE</promise>'\\n\")\n"
        "config = mainspring.ExploopConfig(goal='g', engine='exec:sh agent.sh')\n"
        "print(mainspring.run_exploop(config))"
    ),
    (
        "import pathlib\npathlib.Path('projects').mkdir(exist_ok=True)\n"
        'claim = \'[[claim]]\\nname="a"\\nstatement="1"\\ncheck="test 1 = 1"\\ngoal=true\\n\'\n'
        "pathlib.Path('projects/claims.toml').write_text(claim)\n"
        "config = mainspring.DrvloopConfig(goal='h', engine='exec:sh agent.sh')\n"
        "print(mainspring.run_drvloop(config), await mainspring.run_drvloop_async(config))"
    ),
)


@pytest.mark.filterwarnings("ignore")  # of the libraries that talk to the kernel
def test_cells_call_the_blocking_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MAINSPRING_HOME"):
        monkeypatch.setenv(name, str(tmp_path.with_name(f"{name.lower()}-of-{tmp_path.name}")))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    for cell, said in zip(notebook.cells[-2:], ("0\n", "0 0\n"), strict=True):
        printed = {
            name: "".join(each.text for each in cell.outputs if each.name == name)
            for name in ("stdout", "stderr")
        }
        assert printed["stdout"] == said
        assert "iteration 1/" in printed["stderr"], "a notebook shows how it goes"
