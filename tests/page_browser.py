"""A headless Chromium driven over a pipe by the DevTools protocol; needs only the standard library."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

KEYS = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36,
        "End": 35, "Backspace": 8, "Tab": 9}


def find_browser():
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One page in a browser of its own. Script errors of the page raise from the call that follows."""

    def __init__(self, program):
        self.folder = tempfile.mkdtemp()
        to_browser, self.send_to = os.pipe()
        self.read_from, from_browser = os.pipe()

        def pipes():  # the browser reads descriptor 3 and writes 4
            os.dup2(to_browser, 10)
            os.dup2(from_browser, 11)
            os.dup2(10, 3)
            os.dup2(11, 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--force-color-profile=srgb", "--remote-debugging-pipe",
             f"--user-data-dir={self.folder}/profile", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.last, self.events, self.session = b"", 0, [], None
        target = next(t for t in self("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "DOM", "Accessibility"):
            self(f"{domain}.enable")
        self("Performance.enable", timeDomain="threadTicks")
        self.size(1280, 800)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.send_to)
        os.close(self.read_from)
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _message(self, deadline):
        while b"\0" not in self.buffer:
            if not select.select([self.read_from], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self.read_from, 1 << 20)
            if not part:
                raise EOFError("the browser has ended")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def __call__(self, method, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.send_to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 120
        while True:
            answer = self._message(deadline)
            if answer.get("id") == self.last:
                break
            self.events.append(answer)
        for event in self.events:
            if event.get("method") == "Runtime.exceptionThrown":
                details = event["params"]["exceptionDetails"]
                raise AssertionError(details.get("exception", {}).get("description", details["text"]))
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def busy(self):
        """Seconds of processor time that the page's main thread has worked since it was opened."""
        return next(m["value"] for m in self("Performance.getMetrics")["metrics"] if m["name"] == "TaskDuration")

    def size(self, width, height, phone=False):
        self("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def open(self, path):
        """Opens a file; seconds until its load event."""
        return self.open_address(f"file://{path}")

    def open_address(self, url):
        """Opens an address; seconds until its load event."""
        self.events.clear()
        begin = time.monotonic()
        self("Page.navigate", url=url)
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._message(begin + 120))
        return time.monotonic() - begin

    def js(self, expression):
        """The value of an expression, awaited if it is a promise."""
        answer = self("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"]["exception"]["description"] + "\nin " + expression)
        return answer["result"].get("value")

    def wait(self, expression, seconds=20):
        """Waits until an expression is true."""
        deadline = time.monotonic() + seconds
        while not self.js(expression):
            if time.monotonic() > deadline:
                raise AssertionError(f"never true: {expression}")
            time.sleep(.02)

    def key(self, key):
        """Presses a key of KEYS or a character."""
        text = {} if key in KEYS and key != "Enter" else {"text": "\r" if key == "Enter" else key}
        code = KEYS.get(key, ord(key[0].upper()))
        self("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def type(self, text):
        for character in text:
            self.key(character)

    def click(self, selector, count=1):
        """Clicks the middle of an element."""
        x, y = self.js(f'''(() => {{
          const e = document.querySelector({json.dumps(selector)});
          e.scrollIntoViewIfNeeded();
          const r = e.getBoundingClientRect();
          return [r.x + r.width / 2, r.y + r.height / 2];
        }})()''')
        for n in range(1, count + 1):
            for what in ("mousePressed", "mouseReleased"):
                self("Input.dispatchMouseEvent", type=what, x=x, y=y, button="left", clickCount=n)

    def choose_file(self, selector, path):
        root = self("DOM.getDocument")["root"]["nodeId"]
        node = self("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self("DOM.setFileInputFiles", files=[str(path)], nodeId=node)

    def accessible(self):
        """(role, name) of everything that a screen reader meets."""
        return [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in
                self("Accessibility.getFullAXTree")["nodes"] if not n["ignored"]]

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self("Page.captureScreenshot", format="png")["data"]))
