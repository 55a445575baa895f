"""The server of one page: it hands out the document, and talks to one browser at a time through a websocket."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from .document import HEADERS, Document
from .gate import Gate, Settings
from .wire import LARGEST_MESSAGE, Message, RequestError

SECONDS_TO_SAY_HELLO = 10.0
SECONDS_TO_SHUT_DOWN = 3
# Codes with which a websocket is closed; the page has words for each.
WRONG_TOKEN, REPLACED, GOING_AWAY, POLICY = 4401, 4409, 1001, 1008

logger = logging.getLogger("gyrfalcon")


class Peer:
    """The browser at the other end. What is sent to one that has gone is dropped."""

    def __init__(self, websocket: WebSocket):
        self._websocket, self._lock = websocket, asyncio.Lock()

    async def send(self, kind: str, blobs: Sequence[bytes] = (), **fields: Any) -> None:
        frame = Message(kind, fields, blobs).encode()
        with contextlib.suppress(WebSocketDisconnect, RuntimeError, OSError):
            async with self._lock:
                if isinstance(frame, str):
                    await self._websocket.send_text(frame)
                else:
                    await self._websocket.send_bytes(frame)

    async def refuse(self, about: str, words: str) -> None:
        """Say that a request cannot be fulfilled, and why."""
        await self.send("error", about=about, message=words)

    async def close(self, code: int, words: str) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError, OSError):
            await self._websocket.close(code, words)


class Program(Protocol):
    """What a page does: the part of the server that differs from page to page."""

    document: Document

    async def start(self) -> None:
        """Called before the first page is served."""

    async def stop(self) -> None:
        """Called after the last one has gone, and if `start` has failed."""

    async def welcome(self, peer: Peer) -> None:
        """Called when a page has shown its token; from now on, `peer` is who listens."""

    async def receive(self, message: Message, peer: Peer) -> None:
        """Called for each message. It must return soon; a RequestError is told to the page."""

    async def leave(self, peer: Peer) -> None:
        """Called when the page has gone."""


class Server:
    """Serves the page of a program, to one browser at a time.

    Parameters
    ----------
    program : Program
        What the page does.
    settings : Settings
        Where it is served; on this machine only, at a random port, if nothing else is said.
    """

    def __init__(self, program: Program, settings: Settings | None = None):
        self._program, self._settings = program, settings or Settings()
        family = socket.AF_INET6 if ":" in self._settings.host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.bind((self._settings.host, self._settings.port))
        except OSError as error:
            self._socket.close()
            raise ValueError(
                f"{self._settings.host} port {self._settings.port} cannot be listened on ({error.strerror}): "
                "port=0 takes a free one"
            ) from None
        self.gate = Gate(self._settings, self._socket.getsockname()[1])
        self._peer: Peer | None = None
        self._taking = asyncio.Lock()  # of the session: one page after the other
        config = uvicorn.Config(
            self.app(),
            ws_max_size=LARGEST_MESSAGE,
            ws_max_queue=8,
            ws_per_message_deflate=False,
            log_config=None,
            log_level=logging.ERROR,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            timeout_graceful_shutdown=SECONDS_TO_SHUT_DOWN,
            ssl_certfile=self._settings.certificate,
            ssl_keyfile=self._settings.key,
        )
        self._uvicorn = uvicorn.Server(config)

    @property
    def url(self) -> str:
        """The address to open, with the token."""
        return self.gate.url

    def app(self) -> ASGIApp:
        """The application: the page at /, the websocket at /socket, and the guard before both."""
        routes = [Route("/", self._page), WebSocketRoute("/socket", self._talk)]
        return _Guard(Starlette(routes=routes), self.gate, self._program.document)

    def run(self, announce: Callable[[str], None] | None = None, browser: bool = False) -> None:
        """Serve until Ctrl-C. `announce` is called with the address once the program has started."""

        async def serve() -> None:
            try:
                await self._program.start()
                served = asyncio.create_task(self._uvicorn.serve(sockets=[self._socket]))
                while not self._uvicorn.started and not served.done():
                    await asyncio.sleep(0.02)
                if announce is not None:
                    announce(self.url)
                if browser:
                    await asyncio.to_thread(webbrowser.open, self.url)
                await served
            finally:
                await self._program.stop()

        with contextlib.suppress(KeyboardInterrupt), self._socket:
            asyncio.run(serve())

    @contextlib.contextmanager
    def background(self) -> Iterator[Server]:
        """Serve from a thread, until the block ends: for tests and notebooks."""
        with ThreadPoolExecutor(1, "page") as executor:
            running = executor.submit(self.run)
            try:
                while not self._uvicorn.started:
                    if running.done():
                        running.result()  # which raises why it has ended
                        break
                    time.sleep(0.01)
                yield self
            finally:
                self.stop()
                running.result()

    def stop(self) -> None:
        """End `run`, from any thread."""
        self._uvicorn.should_exit = True

    async def _page(self, request: Request) -> Response:
        return HTMLResponse(self._program.document.html)

    async def _talk(self, websocket: WebSocket) -> None:
        await websocket.accept()
        peer = Peer(websocket)
        if not await self._greeted(websocket, peer):
            return
        try:
            async with self._taking:
                before, self._peer = self._peer, peer
                if before is not None:
                    await before.close(REPLACED, "the page was opened in another window")
                    await self._program.leave(before)
                await self._program.welcome(peer)
            while self._peer is peer:
                await self._answer(await _read(websocket), peer)
        except WebSocketDisconnect:
            pass
        except RequestError as refusal:  # not a message at all
            await peer.refuse("message", str(refusal))
            await peer.close(POLICY, "not a message")
        finally:
            if self._peer is peer:
                self._peer = None
                await self._program.leave(peer)

    async def _greeted(self, websocket: WebSocket, peer: Peer) -> bool:
        """Whether the first message, soon enough, has the token."""
        try:
            hello = await asyncio.wait_for(_read(websocket), SECONDS_TO_SAY_HELLO)
            if hello.kind == "hello" and self.gate.admits(hello.fields.get("token")):
                return True
            words = "the token is missing or wrong: open the address that was printed on the terminal"
        except (RequestError, TimeoutError):
            words = "the first message must have the token"
        except WebSocketDisconnect:
            return False
        await peer.refuse("hello", words)
        await peer.close(WRONG_TOKEN, words)
        return False

    async def _answer(self, message: Message, peer: Peer) -> None:
        try:
            await self._program.receive(message, peer)
        except RequestError as refusal:
            await peer.refuse(message.kind, str(refusal))
        except WebSocketDisconnect:
            raise
        except Exception as error:
            logger.exception("%s failed", message.kind)
            await peer.refuse(message.kind, f"unexpected {type(error).__name__}: the terminal shows where")


async def _read(websocket: WebSocket) -> Message:
    event = await websocket.receive()
    if event["type"] != "websocket.receive":
        raise WebSocketDisconnect(event.get("code", 1000))
    return Message.decode(event["text"] if event.get("text") is not None else event["bytes"])


class _Guard:
    """Refuses requests for other hosts and from other pages before anything else sees them, and adds the headers."""

    def __init__(self, app: ASGIApp, gate: Gate, document: Document):
        self._app, self._gate, self._document = app, gate, document

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        host, origin = (values[0] if len(values) == 1 else None for values in (hosts, origins))
        refused = None
        if not self._gate.knows_host(host):
            refused = "this server is not known by that name: open the address that was printed on the terminal"
        elif (origins or scope["type"] == "websocket") and not self._gate.knows_origin(origin, host):
            refused = "only the page of this server may talk to it"
        if refused is None:
            await self._app(scope, receive, self._with_headers(send, host or ""))
        elif scope["type"] == "http":
            await JSONResponse({"error": refused}, 403)(scope, receive, self._with_headers(send, self._gate.address))
        else:
            await WebSocket(scope, receive, send).send_denial_response(JSONResponse({"error": refused}, 403))

    def _with_headers(self, send: Send, host: str) -> Send:
        policy = self._document.policy(host, self._gate.settings.scheme)
        added = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
        added.append((b"content-security-policy", policy.encode()))

        async def wrapped(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = message | {"headers": [*message.get("headers", []), *added]}
            await send(message)

        return wrapped
