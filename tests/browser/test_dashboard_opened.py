"""`stepbench dashboard --open`: how a browser gets the token, in Chromium."""

from __future__ import annotations

import stat
import threading
import webbrowser
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.chromium import chromium, new_context

from stepbench_tools.cli.environment import _opened
from stepbench_tools.local.proxy import Server
from stepbench_tools.local.stack import Answer

pytestmark = pytest.mark.browser
LIMIT_S = 20


def test_a_browser_is_led_in_by_a_file_of_the_users_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a program was started with is read by every user of the machine; the cookie is kept from other sites."""
    shown: list[str] = []

    def show(address: str) -> bool:
        shown.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", show)
    over = threading.Event()
    page_of_api = Answer(200, {"Content-Type": "text/html"}, b"<h1>Runs</h1>")
    with Server(0, lambda *_: page_of_api) as server, chromium() as browser:
        thread = threading.Thread(target=server.serve_while, args=(lambda: not over.is_set(),))
        thread.start()
        try:
            with _opened(server.gate.address, wanted=True):
                (address,) = shown
                file = Path(urlsplit(address).path)
                assert server.gate.address not in address
                assert [stat.S_IMODE(each.stat().st_mode) for each in (file, file.parent)] == [0o600, 0o700]
                page = new_context(browser).new_page()
                page.goto(address)
                page.get_by_role("heading", name="Runs").wait_for()
                assert page.url == f"http://127.0.0.1:{server.server_port}{server.gate.root}/"
            assert not file.exists()
        finally:
            over.set()
            thread.join(LIMIT_S)
