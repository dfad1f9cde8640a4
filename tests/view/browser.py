# SPDX-License-Identifier: MIT
"""A headless Chromium, driven through chromedriver's WebDriver interface with the
standard library alone. The network is off; pages come from files."""
import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def find():
    """Chromium and its driver, or None."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    return (chromium, driver) if chromium and driver else None


class Browser:
    """with Browser() as b: b.open(path); b.run("return 1 + 1")"""

    def __init__(self, width=1400, height=1200):
        found = find()
        if not found:
            print("chromium and chromium-driver are not installed: skipped")
            sys.exit(77)
        self.folder = tempfile.TemporaryDirectory(prefix="acre-view-")
        self.driver = subprocess.Popen([found[1], "--port=0"], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True,
                                       env=dict(os.environ, HOME=self.folder.name))
        self.session = None
        try:
            self.base = f"http://127.0.0.1:{self.read_port()}"
            arguments = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage",
                         "--disable-gpu", "--disable-background-networking", "--no-first-run",
                         "--hide-scrollbars", "--force-device-scale-factor=1",
                         "--host-resolver-rules=MAP * ~NOTFOUND",
                         f"--user-data-dir={self.folder.name}/profile",
                         f"--window-size={width},{height}"]
            made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL"},
                "goog:chromeOptions": {"binary": found[0], "args": arguments}}}})
            self.session = "/session/" + made["sessionId"]
        except BaseException:
            self.close()
            raise

    def read_port(self):
        for line in self.driver.stdout:
            match = re.search(r"started successfully on port (\d+)", line)
            if match:
                return int(match[1])
        raise RuntimeError("chromedriver did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        try:
            if self.session:
                self.call("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait(30)
            self.folder.cleanup()

    def call(self, method, path, body=None):
        """One command of WebDriver; gives its value."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, method=method,
                                         headers={"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise RuntimeError(f"{value['error']}: {value['message']}") from None

    def command(self, name, body):
        return self.call("POST", f"{self.session}/{name}", body)

    def open(self, path):
        """Loads a page and waits until it has drawn everything."""
        self.command("url", {"url": pathlib.Path(path).resolve().as_uri()})
        self.wait("await acre.ready; await new Promise(r => requestAnimationFrame(() =>"
                  " requestAnimationFrame(r)));")

    def run(self, script, *args):
        return self.command("execute/sync", {"script": script, "args": list(args)})

    def wait(self, script):
        """Runs the body of an asynchronous function; gives what it returns."""
        text = ("const done = arguments[0]; (async () => {" + script + "})()"
                ".then(v => done({ok: v}), e => done({error: String(e)}));")
        value = self.command("execute/async", {"script": text, "args": []})
        assert "error" not in value, value
        return value.get("ok")

    def frame(self):
        """Waits until what was asked for is drawn."""
        self.wait("await new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)));")

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).innerText", selector)

    def logs(self):
        """What the page wrote to the console, errors included."""
        return self.command("se/log", {"type": "browser"})

    def screenshot(self, path):
        data = self.call("GET", self.session + "/screenshot")
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def media(self, scheme):
        """What the system prefers: "light" or "dark"."""
        self.command("goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]}})

    # ---- Hands ----

    def pointer(self, *actions):
        """Moves (x, y), "down" and "up" of a mouse, in pixels of the window."""
        steps = []
        for action in actions:
            if action in ("down", "up"):
                steps.append({"type": "pointer" + action.capitalize(), "button": 0})
            else:
                steps.append({"type": "pointerMove", "duration": 0, "origin": "viewport",
                              "x": round(action[0]), "y": round(action[1])})
        self.command("actions", {"actions": [{"type": "pointer", "id": "mouse",
                                              "parameters": {"pointerType": "mouse"},
                                              "actions": steps}]})
        self.frame()

    def wheel(self, x, y, by):
        self.command("actions", {"actions": [{"type": "wheel", "id": "wheel", "actions": [
            {"type": "scroll", "x": round(x), "y": round(y), "deltaX": 0, "deltaY": by,
             "origin": "viewport", "duration": 0}]}]})
        self.frame()

    def keys(self, *keys):
        steps = []
        for key in keys:
            steps += [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.command("actions", {"actions": [{"type": "key", "id": "keys", "actions": steps}]})
        self.frame()

    def click(self, selector):
        found = self.command("element", {"using": "css selector", "value": selector})
        self.command(f"element/{found[ELEMENT]}/click", {})
        self.frame()
