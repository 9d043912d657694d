# SPDX-License-Identifier: GPL-2.0-only
"""usage: steady.py PAGE HISTORY OUT

Serves PAGE with HISTORY as dsm-exporter does with what it has seen, and leaves pictures of
it in OUT, light and dark. Fails where they would show what a server at work should not:
anything in red, many unmapped writes, a write amplification that does not move.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from browser import Browser

page, out = Path(sys.argv[1]).read_text(), Path(sys.argv[3])
history = json.loads(Path(sys.argv[2]).read_text())
SPAN = 900  # seconds that the page shows


class Exporter(BaseHTTPRequestHandler):
    def do_GET(self):
        path, _, query = self.path.partition("?")
        if path == "/history":
            after = int(query.removeprefix("after=") or 0)
            devices = [{**d, "points": [p for p in d["points"] if p["number"] > after]} for d in history["devices"]]
            kind, text = "application/json", json.dumps({**history, "devices": devices})
        else:
            kind, text = "text/html; charset=utf-8", page
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


def wrong(device):
    points = [p for p in device["points"] if p["at"] > device["points"][-1]["at"] - SPAN]
    length = points[-1]["at"] - points[0]["at"]
    if length < 0.95 * SPAN:
        yield f"it has {length:.0f} s"
    if device["view"]["agent"]["outgrown"]:
        yield f"{device['view']['agent']['outgrown']} boundaries are outgrown"
    if not device["view"]["agent"]["marked"]:
        yield "the load phase is not over"
    written = sum(p["bytes"] for p in points)
    unmapped = sum(p["unmapped_bytes"] for p in points)
    if unmapped > 0.05 * written:
        yield f"{100 * unmapped / written:.1f} % of the bytes were unmapped"
    host, media = (sum(p["drive"][of] for p in points) for of in ("host_bytes", "media_bytes"))
    if media < 1.02 * host:
        yield f"a write amplification of {media / host:.3f}"


(device,) = history["devices"]
found = list(wrong(device))
for what in found:
    print(f"pictures: {what}", file=sys.stderr)
server = ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
threading.Thread(target=server.serve_forever, daemon=True).start()
browser = Browser(f"http://127.0.0.1:{server.server_port}/", out)
try:
    for scheme in ("light", "dark"):
        browser.size(1280, 900)
        browser.scheme(scheme)
        if not browser.open():
            found.append("nothing is drawn")
        browser.picture(f"page-{scheme}")
finally:
    browser.driver.quit()
sys.exit(bool(found))
