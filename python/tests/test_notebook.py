from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent.parent / "examples" / "whatif.ipynb"


def test_the_example_runs(recording, monkeypatch):
    monkeypatch.setenv("RECORDINGS", str(recording.path))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, timeout=120, kernel_name="python3")
    client.execute()
    shown = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs for cell in shown[1:]), "every cell shows something"
