"""A headless Chromium, driven as a user would: mouse, keys and fingers through the DevTools protocol."""

import base64
import io
import itertools
import json
import os
import shutil
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image

from reference.sockets import dial

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--mute-audio",
]
FLAGS += [
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
]
FLAGS += ["--no-proxy-server", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
PATIENCE = 60  # seconds after which a browser that does not answer has failed


@contextmanager
def chromium(folder, *flags):
    """A browser with a fresh profile; yields a function that opens tabs."""
    process = subprocess.Popen(
        [BROWSER, *FLAGS, f"--user-data-dir={folder}", *flags, "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        port = wait(lambda: (Path(folder) / "DevToolsActivePort").read_text().split()[0], (OSError, IndexError))

        @contextmanager
        def tab():
            request = urllib.request.Request(f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT")
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENCE) as answer:
                address = json.load(answer)["webSocketDebuggerUrl"]
            with dial(address) as socket:
                yield Tab(socket)

        yield tab
    finally:
        process.kill()
        process.wait()


def wait(question, errors=()):
    """Ask until the answer is true, and return it."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            if answer := question():
                return answer
        except errors:
            pass
        time.sleep(0.03)
    raise TimeoutError("the browser did not come to it")


class Tab:
    """One page, and what it complained of."""

    def __init__(self, socket):
        self._socket, self._numbers, self.complaints = socket, itertools.count(1), []
        self._loaded = False
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method, **parameters):
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            said = json.loads(self._socket.recv(timeout=PATIENCE))
            if said.get("id") == number:
                assert "error" not in said, (method, said["error"])
                return said["result"]
            self._note(said)

    def _note(self, said):
        parameters = said.get("params", {})
        self._loaded = self._loaded or said["method"] == "Page.loadEventFired"
        if said["method"] == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif said["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(parameters["args"]))
        elif said["method"] == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"]["text"])

    def open(self, url):
        self._load("Page.navigate", url=url)

    def reload(self):
        self._load("Page.reload")

    def _load(self, method, **parameters):
        self._loaded = False
        self.send(method, **parameters)
        # While one page gives way to the other, there is none to ask.
        wait(lambda: (self.send("Page.getNavigationHistory"), self._loaded)[1], AssertionError)

    def look_like(self, width, height, dark=False, phone=False):
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        self.send("Emulation.setTouchEmulationEnabled", enabled=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def run(self, script):
        """The value of an expression of JavaScript."""
        result = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def until(self, script):
        """Wait until an expression is true, and return its value."""
        try:
            return wait(lambda: self.run(script))
        except TimeoutError:
            raise TimeoutError(f"never true: {script}; complaints: {self.complaints}") from None

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)}).textContent")

    def place(self, selector, x=0.5, y=0.5):
        """Where a part of an element is in the window, once it is in sight."""
        return self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoViewIfNeeded?.();"
            f"const r = e.getBoundingClientRect(); return [r.left + {x} * r.width, r.top + {y} * r.height]; }})()"
        )

    def click(self, selector, x=0.5, y=0.5):
        left, top = self.place(selector, x, y)
        self._mouse("mousePressed", left, top)
        self._mouse("mouseReleased", left, top)

    def drag(self, selector, points):
        """Press, move and release at fractions of an element."""
        places = [self.place(selector, *point) for point in points]
        self._mouse("mousePressed", *places[0])
        for place in places[1:]:
            self._mouse("mouseMoved", *place)
        self._mouse("mouseReleased", *places[-1])

    def _mouse(self, kind, x, y):
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def swipe(self, selector, points):
        """The same with a finger."""
        places = [dict(zip("xy", self.place(selector, *point), strict=True)) for point in points]
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=places[:1])
        for place in places[1:]:
            self.send("Input.dispatchTouchEvent", type="touchMove", touchPoints=[place])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def key(self, key, control=False, shift=False):
        code = {"Enter": 13, "Escape": 27, " ": 32}.get(key) or (ord(key.upper()) if len(key) == 1 else 0)
        common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 2 * control + 8 * shift}
        text = {} if control or (len(key) > 1 and key != "Enter") else {"text": "\r" if key == "Enter" else key}
        self.send("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        self.send("Input.insertText", text=text)

    def pictures(self, *selectors):
        """The pixels of canvases at one moment, with their opacity."""
        urls = self.run(f"{json.dumps(selectors)}.map((name) => document.querySelector(name).toDataURL())")
        return [_pixels(base64.b64decode(url.partition(",")[2]), "RGBA") for url in urls]

    def screenshot(self, name):
        """The pixels of the window; kept if GYRFALCON_SCREENSHOTS names a folder."""
        data = base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])
        if os.environ.get("GYRFALCON_SCREENSHOTS"):
            kept = Path(os.environ["GYRFALCON_SCREENSHOTS"])
            kept.mkdir(parents=True, exist_ok=True)
            (kept / f"{name}.png").write_bytes(data)
        return _pixels(data, "RGB")


def _pixels(data, mode):
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert(mode))
