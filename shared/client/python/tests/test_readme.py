"""The examples of the README, and the package's metadata."""

from __future__ import annotations

import ast
import builtins
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

import agents_client
from agents_client import AsyncClient, Client

FOLDER = Path(__file__).resolve().parent.parent


def examples() -> list[str]:
    """Returns the Python examples of the README."""
    return re.findall(r"^```python\n(.*?)^```$", (FOLDER / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)


class ReadmeTest(unittest.TestCase):
    def test_examples_call_methods_that_exist(self) -> None:
        called: set[str] = set()
        for example in examples():
            flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            for node in ast.walk(compile(example, "README.md", "exec", flags)):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "api":
                    called.add(node.attr)
        self.assertGreater(len(called), 8)
        self.assertEqual({name for name in called if not hasattr(Client, name)}, set())

    def test_names_in_the_text_exist(self) -> None:
        text = (FOLDER / "README.md").read_text("utf-8")
        for name in re.findall(r"`((?:wait|follow|get|list|export|stream)_\w+)", text):
            self.assertTrue(hasattr(Client, name) and hasattr(AsyncClient, name), name)
        for name in re.findall(r"`(\w+Error)`", text):
            self.assertTrue(name in agents_client.__all__ or hasattr(builtins, name), name)

    def test_both_clients_have_the_same_methods(self) -> None:
        def names(client: type) -> set[str]:
            return {name for name in dir(client) if not name.startswith("_")} - {"close", "aclose"}

        self.assertEqual(names(Client), names(AsyncClient))

    def test_only_the_standard_library_is_imported(self) -> None:
        imported: set[str] = set()
        for file in (FOLDER / "src" / "agents_client").glob("*.py"):
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.Import):
                    imported.update(name.name.partition(".")[0] for name in node.names)
                elif isinstance(node, ast.ImportFrom) and node.level == 0:
                    imported.add((node.module or "").partition(".")[0])
        self.assertIn("http", imported)
        self.assertEqual(imported - sys.stdlib_module_names, set())

    def test_the_version_is_in_the_metadata(self) -> None:
        self.assertIn(f'\nversion = "{agents_client.__version__}"\n', (FOLDER / "pyproject.toml").read_text("utf-8"))

    @unittest.skipUnless(os.environ.get("AGENTS_BASE_URL"), "AGENTS_BASE_URL is not set")
    def test_the_quick_start_runs(self) -> None:
        path = {"PYTHONPATH": str(FOLDER / "src")}
        run = subprocess.run(
            [sys.executable, "-c", examples()[0]],
            env={**os.environ, **path},
            capture_output=True,
            text=True,
            timeout=600,
        )
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertRegex(run.stdout, r"^My first agent is running: http")
        self.assertTrue(run.stdout.endswith("\nThe agent is deleted\n"), run.stdout)
