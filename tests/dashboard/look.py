# SPDX-License-Identifier: GPL-2.0-only
"""usage: look.py PORT BELL OUT DASHBOARD

Asks the dsm-exporter at PORT what its users ask: with a browser, and with Prometheus.
Leaves pictures in OUT. Prints a line for every test. Connects to the port BELL when
dsmd may end, then dsm-exporter, and again when the guest may.
"""

import json
import socket
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from browser import Browser, TIMEOUT, until

port, bell, out = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
dashboard = json.loads(Path(sys.argv[4]).read_text())
base = f"http://127.0.0.1:{port}/"
failed = False


def test(what, good, why=""):
    global failed
    failed |= not good
    print(f"ok - dashboard: {what}" if good else f"not ok - dashboard: {what}: {why}", flush=True)


def same(what, got, wanted):
    test(what, got == wanted, f"got {got!r}, not {wanted!r}")


def get(url):
    with urllib.request.urlopen(url, timeout=TIMEOUT) as reply:
        return reply.read().decode()


def ring():
    """The listener in the guest may not be there yet; QEMU closes what it does not take."""
    def taken():
        with socket.create_connection(("127.0.0.1", bell), timeout=TIMEOUT) as caller:
            try:
                return caller.recv(1) == b"!"
            except OSError:
                return False
    return until(taken)


def history():
    return {d["name"]: d for d in json.loads(get(base + "history"))["devices"]}


# ---- Prometheus -------------------------------------------------------------


class Prometheus:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        at = Path(self.folder.name)
        job = {"job_name": "dsmd", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
        config = {"global": {"scrape_interval": "2s"}, "scrape_configs": [job]}
        # YAML takes JSON.
        (at / "prometheus.yml").write_text(json.dumps(config))
        command = ["prometheus", f"--config.file={at}/prometheus.yml", f"--storage.tsdb.path={at}/data",
                   "--web.listen-address=127.0.0.1:0", "--log.level=info"]
        self.log = open(out / "prometheus.log", "w+")
        self.process = subprocess.Popen(command, stderr=self.log, stdout=self.log)
        self.base = until(self.address)

    def address(self):
        """The port that it chose, from its log."""
        text = (out / "prometheus.log").read_text()
        found = [w for line in text.splitlines() if "Listening on" in line for w in line.split() if w.startswith("address=")]
        return found and f"http://{found[0].removeprefix('address=')}/api/v1/"

    def results(self, query):
        url = self.base + "query?" + urllib.parse.urlencode({"query": query})
        return json.loads(get(url))["data"]["result"]

    def stop(self):
        self.process.terminate()
        self.process.wait()


def queries():
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "1m").replace("$device", "rs0|rs1").replace("$instance", ".*")


def look_with_prometheus(prometheus):
    lint = subprocess.run(["promtool", "check", "metrics"], input=get(base + "metrics"), text=True, capture_output=True)
    test("promtool finds the metrics right", lint.returncode == 0, lint.stdout + lint.stderr)
    # A rate takes two looks.
    until(lambda: len(prometheus.results("rate(dsm_agent_checkpoints_total[1m])")) == 2)
    # Blocks are known to be free from the third checkpoint on.
    sent = until(lambda: prometheus.results("dsm_agent_discard_last_sent_timestamp_seconds"))
    test("something was discarded", bool(sent))
    for title, query in queries():
        try:
            found = prometheus.results(query)
            # There is no server here; tests/mongo has one.
            expected = "dsm_server_" not in query
            test(f"Prometheus has the results for {title}: {query[:50]}", bool(found) == expected, f"{len(found)} for {query}")
        except OSError as e:
            test(f"Prometheus understands {title}", False, f"{query}: {e}")
    ages = [float(r["value"][1]) for r in prometheus.results("time() - dsm_last_checkpoint_timestamp_seconds")]
    test("the last checkpoint was not long ago", len(ages) == 2 and all(-1 < age < TIMEOUT for age in ages), f"{ages}")
    # There is no moment before the first checkpoint, and windows are 0 then.
    moments = "dsm_last_checkpoint_timestamp_seconds"
    windows = f"(dsm_windows_total and on(device) {moments})"
    one = prometheus.results(f"changes({moments}[1h:1s]) == changes({windows}[1h:1s])")
    same("and is one moment until the next", sorted(r["metric"]["device"] for r in one), ["rs0", "rs1"])
    waf = prometheus.results("dsm_drive_media_written_bytes_total / dsm_drive_host_written_bytes_total")
    same("only the drive with FDP reports what it writes", [r["metric"]["device"] for r in waf], ["rs0"])


# ---- the browser ------------------------------------------------------------

# What people would see of the page, and of which text they could not read.
UNREADABLE = """
const luminance = rgb => {
	const [r, g, b] = rgb.map(n => n / 255).map(n => n <= .04045 ? n / 12.92 : ((n + .055) / 1.055) ** 2.4);
	return .2126 * r + .7152 * g + .0722 * b;
};
const rgb = text => text.match(/[\\d.]+/g).map(Number);
const behind = e => {
	for (; e; e = e.parentElement) {
		const c = rgb(getComputedStyle(e).backgroundColor);
		if (c.length < 4 || c[3] > 0) return c.slice(0, 3);
	}
};
const bad = [];
for (const e of document.querySelectorAll('body *')) {
	if (!e.getClientRects().length || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
	const style = getComputedStyle(e);
	const [a, b] = [rgb(e instanceof SVGElement ? style.fill : style.color).slice(0, 3), behind(e)].map(luminance);
	const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
	if (contrast < 4.5) bad.push(`${e.textContent}: ${contrast.toFixed(1)}`);
}
return bad;
"""

# Text that lies on other text, or beyond its drawing or the window.
MISPLACED = """
const bad = [];
const width = document.documentElement.clientWidth;
if (document.documentElement.scrollWidth > width) bad.push('the page is wider than the window');
for (const svg of document.querySelectorAll('svg:not([hidden])')) {
	const room = svg.getBoundingClientRect();
	const texts = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
	texts.forEach(([text, r], i) => {
		if (r.left < room.left - .5 || r.right > room.right + .5 || r.top < room.top - .5 || r.bottom > room.bottom + .5)
			bad.push(`${text} is cut off`);
		for (const [other, o] of texts.slice(i + 1))
			if (r.left < o.right && o.left < r.right && r.top + 1 < o.bottom && o.top + 1 < r.bottom)
				bad.push(`${text} lies on ${other}`);
	});
}
for (const e of document.querySelectorAll('h1, h2, dt, dd, small, p, td, th, li, .choice span')) {
	const r = e.getBoundingClientRect();
	if (r.width && (r.right > width + .5 && !e.closest('.scroll') || e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline'))
		bad.push(`${e.textContent} is too wide`);
}
return bad;
"""

COLOURS = "return [...document.querySelectorAll('#streams tbody i')].map(i => getComputedStyle(i).backgroundColor)"
NONSENSE = r"return document.body.innerText.match(/.*(NaN|undefined|null|\[object).*/g)"
ROWS = """return [...document.querySelectorAll('#streams tbody tr')].map(r =>
	[r.dataset.stream, r.cells[1].textContent, r.cells[2].textContent])"""


def figure(n):
    digits = 0 if n >= 100 or n == 0 else 1 if n >= 10 else 2
    return f"{n:,.{digits}f}"


def look_in_all_forms(browser, name, label):
    for width in (1280, 400):
        for scheme in ("light", "dark"):
            browser.size(width, 900)
            browser.scheme(scheme)
            test(f"{label}, {width} wide, {scheme}: it is drawn", bool(browser.open(f"#{name}")))
            same(f"{label}, {width} wide, {scheme}: every text is in its place", browser.run(MISPLACED), [])
            same(f"{label}, {width} wide, {scheme}: every text can be read", browser.run(UNREADABLE), [])
            same(f"{label}, {width} wide, {scheme}: and says something", browser.run(NONSENSE), None)
            colours = browser.run(COLOURS)
            same(f"{label}, {width} wide, {scheme}: streams have colours of their own", len(set(colours)), len(colours))
            browser.picture(f"{name}-{width}-{scheme}")


def look_at_figures(browser):
    browser.size(1280, 900)
    browser.open("#rs0")
    # A point may have come in between.
    def agree():
        device = history()["rs0"]
        last, uses = device["points"][-1], device["view"]["kernel"]["uses"]
        seen = sorted({int(s) for p in device["points"] for s in p["streams"]})
        wanted = [[str(s), ", ".join(uses.get(str(s), [])) or ("not in the layout" if s else "not stamped"),
                   figure(last["streams"].get(str(s), {"bytes": 0})["bytes"] / last["seconds"] / 2**20)] for s in seen]
        rows = browser.run(ROWS)
        return rows == wanted and wanted
    rows = until(agree)
    test("the table of streams has what dsmd counted last", bool(rows), f"{browser.run(ROWS)}")
    test("which are several streams", bool(rows) and len(rows) >= 3, f"{rows}")
    uses = {line.split('used_for="')[1].split('"')[0] for line in get(base + "metrics").splitlines()
            if line.startswith("dsm_stream_bytes_total{") and 'device="rs0"' in line}
    test("the page and the metrics have the same names for streams", {r[1] for r in rows or []} - uses <= {"not stamped"}, f"{uses}")
    # What the page has got, it has drawn; dsmd may have counted more since it was asked.
    def drawn():
        points = browser.run("return document.querySelector('#streams path').getAttribute('d').split('L').length") // 2
        before = len(history()["rs0"]["points"])
        return before - 2 <= points <= before and f"{points} of {before}"
    seen = until(drawn)
    test(f"a page that was opened now shows what was before ({seen} points)", bool(seen))
    def bars():
        drawn = browser.run("return document.querySelectorAll('#checkpoints rect').length")
        windows = sum(p["checkpoints"] > 0 for p in history()["rs0"]["points"])
        return windows - 2 <= drawn <= windows and drawn > 2 and f"{drawn} of {windows}"
    seen = until(bars)
    test(f"checkpoints are drawn ({seen})", bool(seen))
    test("write amplification is a number", browser.run("return document.querySelectorAll('#wa path').length") == 1)
    browser.driver.find_element(By.CSS_SELECTOR, "summary").click()
    until(lambda: browser.run("return document.querySelectorAll('#table tbody tr').length"))
    minutes = browser.run("return document.querySelectorAll('#table tbody tr').length")
    test(f"the figures are there as a table, too ({minutes} minutes)", minutes >= 1)
    same("and are figures", browser.run(NONSENSE), None)


def look_at_devices(browser):
    browser.open()
    host = json.loads(get(base + "history"))["host"]
    test("the page says whose it is", browser.text("#host") == f"dm-dsm on {host}", browser.text("#host"))
    same("the first device is shown first", browser.driver.title, f"rs0 – {host} – dm-dsm")
    browser.driver.find_element(By.CSS_SELECTOR, "#devices input[value=rs1]").click()
    same("another one is a click away", browser.driver.title, f"rs1 – {host} – dm-dsm")
    test("its address says so", browser.driver.current_url.endswith("#rs1"), browser.driver.current_url)
    said = browser.text("#wa .none")
    test(f"a drive that reports nothing is named ({said})", said.startswith("It cannot be known: nvme"), said)
    browser.driver.find_element(By.CSS_SELECTOR, "#ranges input[value='3600']").click()
    same("an hour is shown when it is asked for", browser.run("return document.querySelector('#ranges input:checked').value"), "3600")


def look_with_the_keyboard(browser):
    browser.size(1280, 900)
    browser.open("#rs0")
    reached = []
    for _ in range(20):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(browser.run("return document.activeElement.closest('figure, fieldset, details')?.id ?? ''"))
        if reached[-1] == "wa":
            break
    same("the keyboard reaches choices and charts", [r for r in dict.fromkeys(reached) if r],
         ["devices", "ranges", "streams", "wa"])
    chart = browser.driver.switch_to.active_element
    chart.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    test("arrows walk through time", " at " in browser.text("#streams figcaption p"), browser.text("#streams figcaption p"))
    visible = browser.run("return document.querySelectorAll('.cross[visibility=visible]').length")
    test(f"in all charts together ({visible})", visible >= 3)
    chart.send_keys(Keys.ESCAPE)
    test("and back to now", browser.text("#streams figcaption p").endswith(" now"))
    tree = browser.command("Accessibility.getFullAXTree")["nodes"]
    images = [n["name"]["value"] for n in tree if n.get("role", {}).get("value") in ("image", "img") and not n["ignored"]]
    test("every chart says what it shows", len(images) == 4 and all(any(c.isdigit() for c in i) for i in images), f"{images}")
    nameless = [n["role"]["value"] for n in tree if n.get("role", {}).get("value") in ("radio", "radiogroup", "group", "region")
                and not n["ignored"] and not n.get("name", {}).get("value")]
    same("every choice has a name", nameless, [])


def look_at_the_end(browser):
    browser.open("#rs0")
    browser.errors()
    test("it is live", browser.text("#state").startswith("live"), browser.text("#state"))
    names = [r[:2] for r in browser.run(ROWS)]
    ring()
    gone = until(lambda: browser.text("#state") == "dsmd has ended")
    test("when dsmd ends, the page says so", bool(gone), browser.text("#state"))
    same("and that it looks at the device no more", browser.text("#about"), "no dsmd looks at it")
    now = [r[:2] for r in browser.run(ROWS)]
    same("the streams keep their names", [name for name in names if name not in now], [])
    up = [line.rsplit(" ", 1)[1] for line in get(base + "metrics").splitlines() if line.startswith("dsm_agent_up{")]
    same("the metrics say so, and that the other goes on", up, ["0", "1"])
    browser.driver.find_element(By.CSS_SELECTOR, "#devices input[value=rs1]").click()
    test("as does its page", browser.text("#state").startswith("live"), browser.text("#state"))
    ring()
    gone = until(lambda: "dsm-exporter does not answer" in browser.text("#state"))
    test("when dsm-exporter ends, the page says so", bool(gone), browser.text("#state"))
    test("and keeps what it has", browser.run("return document.querySelectorAll('#streams path').length") > 0)
    ring()


ready = until(lambda: all(sum(p["checkpoints"] for p in d["points"]) >= 4 for d in history().values()))
test("dsmd has a history of two databases", bool(ready))
prometheus = Prometheus()
browser = Browser(base, out)
try:
    look_in_all_forms(browser, "rs0", "a drive with FDP")
    look_in_all_forms(browser, "rs1", "a plain drive")
    look_at_figures(browser)
    look_at_devices(browser)
    look_with_the_keyboard(browser)
    same("nothing is asked for elsewhere", [url for url in browser.asked() if not url.startswith(base)], [])
    same("the browser has nothing to complain about", browser.errors(), [])
    look_with_prometheus(prometheus)
    look_at_the_end(browser)
finally:
    browser.driver.quit()
    prometheus.stop()
sys.exit(failed)
