"""The floors of runtime/: no folder includes what stands above it in the table of runtime/README.md, each folder has a
row, and each row's first file is there."""

import pathlib
import re
import sys
import unittest

RUNTIME = pathlib.Path(sys.argv.pop(1)) / "runtime"
ROW = re.compile(r"^\| `(\w+)/` \|.*\| `(\w+\.h)` \|$", re.MULTILINE)
INCLUDE = re.compile(r'^#include "(?:runtime/)?(\w+)/\w+\.(?:h|def)"', re.MULTILINE)
HEADERS = RUNTIME / "include" / "runtime"


def table():
    """[(folder, the header to begin with)], from the top floor down."""
    return ROW.findall((RUNTIME / "README.md").read_text())


def sources(folder):
    return [*(RUNTIME / folder).iterdir(), *(HEADERS / folder).glob("*")]


class Floors(unittest.TestCase):
    def test_each_folder_has_a_row(self):
        folders = {path.name for path in [*RUNTIME.iterdir(), *HEADERS.iterdir()] if path.is_dir()} - {"include"}
        self.assertEqual(folders, {folder for folder, _ in table()})
        self.assertEqual([path.name for path in RUNTIME.glob("*.cpp")], [])

    def test_each_row_begins_with_a_header_that_is_there(self):
        for folder, header in table():
            self.assertTrue((HEADERS / folder / header).is_file(), f"{folder}/{header}")

    def test_nothing_is_included_from_above(self):
        floors = [folder for folder, _ in table()]
        seen = 0
        for floor, folder in enumerate(floors):
            for path in sources(folder):
                for included in INCLUDE.findall(path.read_text()):
                    if included in floors:
                        seen += 1
                        self.assertGreaterEqual(floors.index(included), floor, f"{path} includes from {included}/")
        self.assertGreater(seen, 100)  # the includes are written as this test reads them


if __name__ == "__main__":
    unittest.main()
