# SPDX-License-Identifier: GPL-2.0-only
"""Chromium, for what looks at the page."""

import json
import time

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

TIMEOUT = 900  # seconds; by then all hangs


def until(of):
    """What `of` gives as soon as that is true; what it waits for goes on meanwhile."""
    end = time.monotonic() + TIMEOUT
    while True:
        try:
            got = of()
        except OSError:
            got = None
        if got or time.monotonic() > end:
            return got
        time.sleep(0.5)


class Browser:
    def __init__(self, base, out):
        self.base, self.out = base, out
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--lang=en"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        self.command("Network.enable")

    def command(self, name, **arguments):
        return self.driver.execute_cdp_cmd(name, arguments)

    def size(self, width, height):
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def scheme(self, scheme):
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def run(self, script):
        return self.driver.execute_script(script)

    def text(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector).text

    def open(self, fragment=""):
        self.driver.get("about:blank")
        self.driver.get(self.base + fragment)
        return until(lambda: self.run("return document.querySelectorAll('#streams path').length"))

    def picture(self, name):
        """Of the whole page."""
        height = self.run("return document.documentElement.scrollHeight")
        width = self.run("return innerWidth")
        self.size(width, height)
        time.sleep(0.5)
        self.driver.save_screenshot(str(self.out / f"{name}.png"))

    def asked(self):
        """The addresses that were asked for."""
        messages = [json.loads(m["message"])["message"] for m in self.driver.get_log("performance")]
        sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if url != "about:blank"]

    def errors(self):
        return [m["message"] for m in self.driver.get_log("browser")]
