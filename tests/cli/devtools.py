"""A browser without a window, driven over its DevTools protocol by the standard library alone.

    with Browser(folder) as browser:
        page = browser.page(width=390, height=800)
        page.open("file:///report/index.html")
        page.click("#go"); page.key("Enter"); page.value("document.title"); page.picture("shot.png")
        assert not page.complaints

Everything waits for a condition of the page, never for a time.
"""
import base64, json, os, socket, struct, subprocess, urllib.parse, urllib.request


class Socket:
    """A WebSocket's client: text messages."""

    def __init__(self, url):
        address = urllib.parse.urlparse(url)
        self.socket = socket.create_connection((address.hostname, address.port))
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            (f"GET {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        self.file = self.socket.makefile("rb")
        status = self.file.readline()
        assert b" 101 " in status, status
        while self.file.readline() not in (b"\r\n", b""):
            pass

    def send(self, text):
        data, mask = text.encode(), os.urandom(4)
        n = len(data)
        head = b"\x81" + (bytes([0x80 | n]) if n < 126 else b"\xfe" + struct.pack(">H", n) if n < 65536 else b"\xff" + struct.pack(">Q", n))
        repeated = (mask * (n // 4 + 1))[:n]
        masked = (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(n, "big") if n else b""
        self.socket.sendall(head + mask + masked)

    def receive(self):
        message = b""
        while True:
            first, second = self.file.read(2)
            n = second & 0x7F
            if n == 126:
                n = struct.unpack(">H", self.file.read(2))[0]
            elif n == 127:
                n = struct.unpack(">Q", self.file.read(8))[0]
            message += self.file.read(n)
            assert first & 0x0F in (0, 1, 2, 9), f"the browser ended the connection: {message}"
            if first & 0x0F == 9:
                message = b""
            elif first & 0x80:
                return message.decode()

    def close(self):
        self.file.close()
        self.socket.close()


class Page:
    def __init__(self, socket):
        self.socket, self.number, self.complaints, self.requests = socket, 0, [], []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def note(self, event):
        """Errors on the console, exceptions, and what the page asked the network for."""
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def call(self, method, **params):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            answer = json.loads(self.socket.receive())
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.note(answer)

    def value(self, expression):
        """Of a script, whose promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, (expression, answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait(self, condition):
        self.value(f"new Promise(done => {{ const look = () => ({condition}) ? done(true) : setTimeout(look, 20); look(); }})")

    def size(self, width, height, is_phone=False, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=is_phone)

    def open(self, url):
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
        self.wait(f"location.href !== 'about:blank' && document.readyState === 'complete'")

    def place(self, selector):
        """The middle of an element, scrolled into view."""
        place = self.value(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null; "
                           "e.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'}); const r = e.getBoundingClientRect(); "
                           "return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        assert place, f"no {selector}"
        return place

    def point(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click_at(self, x, y):
        self.point(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def click(self, selector):
        self.click_at(*self.place(selector))

    KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39,
            "ArrowDown": 40, "+": 187, "-": 189}

    def key(self, name):
        code = self.KEYS.get(name, ord(name[0].upper()))
        text = {"Enter": "\r"}.get(name, name if len(name) == 1 else "")
        words = {"key": name, "code": name if len(name) > 1 else "Key" + name.upper(), "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **words)
        self.call("Input.dispatchKeyEvent", type="keyUp", **words)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def picture(self, path, is_whole=False):
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=is_whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(answer["data"]))

    def print(self, path):
        """To a PDF on A4, as people print."""
        answer = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=True, preferCSSPageSize=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(answer["data"]))


class Browser:
    def __init__(self, folder, program="chromium"):
        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--disable-dev-shm-usage",
             "--disable-background-networking", "--remote-debugging-port=0", "--user-data-dir=" + folder, "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.lines = []
        while True:
            line = self.process.stderr.readline()
            assert line, "the browser did not start:\n" + "".join(self.lines)
            self.lines.append(line)
            if line.startswith("DevTools listening on "):
                self.port = urllib.parse.urlparse(line.split()[-1]).port
                break
        self.sockets = []
        os.set_blocking(self.process.stderr.fileno(), False)

    def page(self, width=1000, height=700, is_phone=False):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/json/new?about:blank", method="PUT")
        self.sockets.append(Socket(json.load(urllib.request.urlopen(request))["webSocketDebuggerUrl"]))
        page = Page(self.sockets[-1])
        page.size(width, height, is_phone)
        return page

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self.sockets:
            one.close()
        self.process.terminate()
        self.process.wait()
