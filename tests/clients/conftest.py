"""Purpose:  one running service for all client tests, with a runtime that follows a script.
Owns:     the service.
Thread:   pytest's.
Lifetime: one test session.
"""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from aotx_service import Service, scripted_model  # noqa: E402

# Bytes of two characters cut over four pieces, then a piece that ends inside a third.
PIECES = [b"Hello", b", \xf0\x9f", b"\x98\x80 ", b"\xe4", b"\xbd\xa0!"]


@pytest.fixture(scope="session")
def service():
    model = scripted_model(pieces=[piece.hex() for piece in PIECES], sequence_tokens=32768)
    with Service([model]) as running:
        yield running


@pytest.fixture(scope="session")
def text():
    return b"".join(PIECES).decode()
