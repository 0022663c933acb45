"""A real browser for tests: headless Chromium, driven over its DevTools protocol."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
import urllib.request

from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
CODES = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


def find_chromium():
    """The browser's program, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One headless browser with a profile of its own; `page` opens a tab."""

    def __init__(self, program, profile):
        self.process = subprocess.Popen(
            [
                program,
                "--headless=new",
                "--no-sandbox",  # continuous integration runs as root; only our own page is opened
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--remote-debugging-port=0",
                f"--user-data-dir={profile}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(profile)},
        )
        port_file = profile / "DevToolsActivePort"
        wait(lambda: port_file.exists() and port_file.read_text().count("\n") >= 1, 60, "the browser starts")
        self.address = f"http://127.0.0.1:{port_file.read_text().split()[0]}"

    def page(self):
        request = urllib.request.Request(f"{self.address}/json/new?about:blank", method="PUT")
        with urllib.request.urlopen(request, timeout=20) as reply:
            return Page(json.load(reply)["webSocketDebuggerUrl"])

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Page:
    """One tab."""

    def __init__(self, address):
        self.socket = connect(address, max_size=None, open_timeout=20).__enter__()  # left in close
        self.numbers = itertools.count(1)
        self.errors = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.size(1280, 860)

    def call(self, method, **parameters):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv(timeout=60))
            if message.get("id") == number:
                assert "error" not in message, message["error"]
                return message["result"]
            self._note(message)

    def _note(self, message):
        """Keep what the page complained about, and agree to leave a page when it asks."""
        kind, facts = message.get("method"), message.get("params", {})
        if kind == "Runtime.exceptionThrown":
            self.errors.append(facts["exceptionDetails"].get("exception", {}).get("description", "error"))
        elif kind == "Log.entryAdded" and facts["entry"]["level"] == "error":
            self.errors.append(facts["entry"]["text"])
        elif kind == "Page.javascriptDialogOpening":
            self.socket.send(
                json.dumps({"id": 0, "method": "Page.handleJavaScriptDialog", "params": {"accept": True}})
            )

    def open(self, address):
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, script):
        """The value of a JavaScript expression; promises are awaited."""
        reply = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def until(self, script, seconds=15):
        wait(lambda: self.run(script), seconds, script)

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def press(self, key):
        """One key, as the keyboard would send it."""
        if len(key) == 1:
            self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        else:  # what the browser itself does with such a key goes by its number
            self.call("Input.dispatchKeyEvent", type="rawKeyDown", key=key, windowsVirtualKeyCode=CODES[key])
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def size(self, width, height):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def scheme(self, name):
        """ "light" or "dark"."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        self.socket.__exit__(None, None, None)


def wait(condition, seconds, what):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what}")
