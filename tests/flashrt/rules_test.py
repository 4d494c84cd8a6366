"""Purpose:  keep rules.md true: every test that a rule names exists, every test case of this folder is named by a rule,
          and the suite's own rules are all listed with their words.
Owns:     nothing.
Thread:   one.
Lifetime: one run; exit 0 when it is true. It first plants breaches and fails unless each is reported.
"""
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SUITE = HERE.parents[1] / "sdk" / "conformance" / "rules.cpp"
BUILDER_ROW = re.compile(r'\{"((?:stream|graph|buffer|region|identity|manifest|port|stage|plan|extension): [^"]+)"')
CASE = re.compile(r'TEST_CASE\("((?:[^"\\]|\\.)*)"')


def source(name):
    path = HERE / name
    if not path.is_file():
        return None
    # Long strings are cut into neighbours, and lists in scripts into lines.
    text = re.sub(r'"\s*\n\s*"', "", path.read_text())
    return text if name.endswith(".cpp") else re.sub(r"\s+", " ", text)


def citations(page):
    """(rule, file, quoted) of every row; quoted is None where a row cites nothing."""
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if len(cells) != 2 or not line.startswith("| ") or set(cells[1]) <= set("- ") or cells[1] in ("test", "rule"):
            continue
        if re.fullmatch(r"`[a-z_.]+`", cells[0]):
            continue
        parts = re.findall(r'`([^`]+)`((?: "[^"]*")+)', cells[1])
        if not parts:
            yield cells[0], None, None
        for file, quotes in parts:
            for quoted in re.findall(r'"([^"]*)"', quotes):
                yield cells[0], file, quoted


def faults(page):
    found, cited = [], set()
    for rule, file, quoted in citations(page):
        text = None if file is None else source(file)
        if file is None:
            found.append(f"no test: {rule}")
        elif text is None:
            found.append(f"no file {file}: {rule}")
        elif (f'"{quoted}"' if file.endswith(".cpp") else quoted) not in text:
            found.append(f"{file} does not hold '{quoted}': {rule}")
        cited.add((file, quoted))
    for path in sorted(HERE.glob("*.cpp")):
        text = source(path.name)
        names = CASE.findall(text) + (BUILDER_ROW.findall(text) if path.name == "construct_test.cpp" else [])
        found += [f"{path.name}: '{name}' shows no rule" for name in names if (path.name, name) not in cited]
    for name in re.findall(r"`([a-z_/.]+\.(?:cpp|py|sh))`", page):
        if source(name) is None:
            found.append(f"no file {name}")
    for rule, words in re.findall(r'\{"([a-z_.]+)", "((?:[^"\\]|\\.)*)"\}', SUITE.read_text()):
        if f"| `{rule}` | {words} |" not in page:
            found.append(f"the suite's rule {rule} is not listed in its own words")
    return found


def main():
    page = (HERE / "rules.md").read_text()
    for planted, word in (("| A rule. | `exec_test.cpp` \"a case that nobody wrote\" |", "does not hold"),
                          ("| A rule. | `nowhere_test.cpp` \"a case\" |", "no file"),
                          ("| A rule without a test. | we are sure of it |", "no test")):
        if not any(word in fault for fault in faults(page + planted + "\n")):
            sys.exit(f"a planted breach is not found: {planted}")
    if not any("shows no rule" in fault for fault in faults(page.replace("size 127", "size 128").replace(
            "bindings remember", "bindings forget"))):
        sys.exit("a test case without a rule is not found")
    found = faults(page)
    print("\n".join(found) if found else f"rules: {len(set(citations(page)))} citations hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
