#!/usr/bin/env python3
"""Purpose:  add up what test runners wrote as JUnit XML and close with one line, "N passed, N failed, N skipped".
Owns:     nothing.
Thread:   one.
Lifetime: one run; exit 1 when a test failed, a result file is missing or broken, a step failed, or nothing ran.
"""
import argparse
import sys
import xml.etree.ElementTree as ElementTree


def add_up(path):
    """(passed, failed, skipped, names of the failed) of one file. ctest writes a status, other runners child elements."""
    passed, failed, skipped, names = 0, 0, 0, []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        status = case.get("status", "")
        children = {child.tag for child in case}
        if children & {"failure", "error"} or status == "fail":
            failed += 1
            names.append(case.get("name", "?"))
        elif "skipped" in children or status in ("notrun", "disabled"):
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped, names


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--failed-step", choices=("yes", "no"), default="no")
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    passed = failed = skipped = 0
    for path in arguments.files:
        try:
            more_passed, more_failed, more_skipped, names = add_up(path)
        except (OSError, ElementTree.ParseError) as error:
            print(f"{path}: no results: {error}")
            failed += 1
            continue
        print(f"{path}: {more_passed} passed, {more_failed} failed, {more_skipped} skipped")
        for name in names:
            print(f"  failed: {name}")
        passed, failed, skipped = passed + more_passed, failed + more_failed, skipped + more_skipped
    if arguments.failed_step == "yes":
        print("a build or an installation failed; see above")
        failed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
