#!/usr/bin/env python3
"""Purpose:  docs/dependencies.md and packaging/debian-packages.txt name the same packages in the same scopes.
Owns:     nothing.
Thread:   one.
Lifetime: one run.
"""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Dependencies(unittest.TestCase):
    def test_page_and_list_agree(self):
        listed = []
        for line in (ROOT / "packaging/debian-packages.txt").read_text().splitlines():
            if line and not line.startswith("#"):
                name, scope, reason = line.split(None, 2)
                self.assertTrue(reason)
                listed.append((name, scope))
        page = (ROOT / "docs/dependencies.md").read_text()
        documented = re.findall(r"^\| ([a-z0-9+.-]+) \| (build|model|test|bench|arm64) \| \S", page, re.M)
        self.assertEqual(listed, documented)
        self.assertEqual(len(listed), len(set(listed)))


if __name__ == "__main__":
    unittest.main()
