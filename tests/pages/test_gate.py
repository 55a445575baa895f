"""The server refuses whoever is not its own page with its own token, in words, and keeps serving."""

import asyncio
import http.client
import json
from contextlib import contextmanager, suppress

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gyrfalcon.pages import Document, Gate, Message, RequestError, Server, Settings, assemble, server, wire
from reference.sockets import dial


class Echo:
    """A program that sends back what it gets."""

    document: Document = assemble("<!doctype html><!-- style --><!-- script -->", [], [])

    def __init__(self):
        self.said = []

    async def start(self):
        self.said.append("start")

    async def stop(self):
        self.said.append("stop")

    async def welcome(self, peer):
        await peer.send("welcome")

    async def receive(self, message, peer):
        if message.kind == "break":
            raise KeyError("a defect")
        if message.kind == "refuse":
            raise RequestError("not today")
        await peer.send("echo", message.blobs, **message.fields)

    async def leave(self, peer):
        self.said.append("leave")


@pytest.fixture(scope="module")
def served():
    with Server(Echo()).background() as running:
        yield running


def request(served, headers, method="GET", path="/"):
    connection = http.client.HTTPConnection("127.0.0.1", served.gate.port, timeout=20)
    connection.putrequest(method, path, skip_host=True)
    for name, value in headers:
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def socket(served, host=None, origin=None):
    """A websocket to the server whose handshake shows the given names."""
    host = host or served.gate.address
    extra = {} if origin == "" else {"origin": origin or f"http://{host}"}
    return dial(f"ws://{host}/socket", port=served.gate.port, **extra)


@contextmanager
def talk(served):
    with socket(served) as opened:
        opened.send(Message("hello", {"token": served.gate.token}).encode())
        assert Message.decode(opened.recv(timeout=20)).kind == "welcome"
        yield opened


def test_the_page_comes_with_headers_and_without_the_token(served):
    answer, body = request(served, [("Host", served.gate.address)])
    assert answer.status == 200
    assert served.gate.token.encode() not in body
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert f"connect-src ws://{served.gate.address}" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "Server" not in answer.headers
    assert request(served, [("Host", f"localhost:{served.gate.port}")])[0].status == 200
    assert request(served, [("Host", served.gate.address)], path="/../gate.py")[0].status == 404
    assert request(served, [("Host", served.gate.address)], method="POST")[0].status == 405


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", ""]
)
def test_foreign_hosts_are_refused(served, host):
    host = host.format(port=served.gate.port)
    answer, body = request(served, [("Host", host)])
    assert answer.status == 403
    assert "printed on the terminal" in json.loads(body)["error"]
    if host.startswith(("evil", "localhost")):
        with pytest.raises(InvalidStatus) as refused, socket(served, host=host):
            pass
        assert refused.value.response.status_code == 403
        assert b"not known by that name" in refused.value.response.body


def test_two_hosts_and_foreign_origins_of_pages_are_refused(served):
    address = served.gate.address
    assert request(served, [("Host", address), ("Host", address)])[0].status in (400, 403)
    assert request(served, [("Host", address), ("Origin", "https://evil.example")])[0].status == 403


@pytest.mark.parametrize("origin", ["", "null", "https://evil.example", "http://127.0.0.1", "https://{address}"])
def test_foreign_origins_are_refused(served, origin):
    with pytest.raises(InvalidStatus) as refused, socket(served, origin=origin.format(address=served.gate.address)):
        pass
    assert refused.value.response.status_code == 403
    assert b"only the page of this server" in refused.value.response.body


def test_a_name_of_this_machine_must_be_the_same_in_both(served):
    with pytest.raises(InvalidStatus), socket(served, origin=f"http://localhost:{served.gate.port}"):
        pass
    with socket(served, host=f"localhost:{served.gate.port}") as opened:
        opened.send(Message("hello", {"token": served.gate.token}).encode())
        assert Message.decode(opened.recv(timeout=20)).kind == "welcome"


@pytest.mark.parametrize(
    "hello",
    [
        '{"kind": "hello"}',
        '{"kind": "hello", "token": "wrong"}',
        '{"kind": "hello", "token": 3}',
        '{"kind": "hello", "token": "\\ud800"}',
        '{"kind": "look"}',
        "[]",
        "no JSON",
        b"\xff\xff\xff\xff",
    ],
)
def test_without_the_token_nothing_is_answered(served, hello):
    with socket(served) as opened:
        opened.send(hello)
        said = Message.decode(opened.recv(timeout=20))
        assert said.kind == "error"
        assert "token" in said.fields["message"]
        with pytest.raises(ConnectionClosed) as closed:
            opened.recv(timeout=20)
        assert closed.value.rcvd.code == server.WRONG_TOKEN


def test_silence_is_not_waited_for(served, monkeypatch):
    monkeypatch.setattr(server, "SECONDS_TO_SAY_HELLO", 0.05)
    with socket(served) as opened:
        assert Message.decode(opened.recv(timeout=20)).kind == "error"
        with pytest.raises(ConnectionClosed):
            opened.recv(timeout=20)


def test_messages_of_any_kind_come_back(served):
    with talk(served) as opened:
        for blobs in ((), (b"one",), (b"", b"two" * 1000)):
            opened.send(Message("echo", {"number": 3, "text": "ünï"}, blobs).encode())
            assert Message.decode(opened.recv(timeout=20)) == Message("echo", {"number": 3, "text": "ünï"}, blobs)


def test_refusals_and_defects_are_told_and_survived(served, caplog):
    with talk(served) as opened:
        for kind, words in (("refuse", "not today"), ("break", "unexpected KeyError")):
            opened.send(Message(kind).encode())
            said = Message.decode(opened.recv(timeout=20))
            assert said.kind == "error"
            assert said.fields["about"] == kind
            assert words in said.fields["message"]
        opened.send(Message("echo").encode())
        assert Message.decode(opened.recv(timeout=20)).kind == "echo"
    assert "a defect" in caplog.text


def test_messages_that_are_too_large_end_the_session_only(served):
    with talk(served) as opened:
        with suppress(ConnectionClosed):  # the server may close while it is being sent
            opened.send(bytes(wire.LARGEST_MESSAGE + 1))
        with pytest.raises(ConnectionClosed) as closed:
            opened.recv(timeout=20)
        assert closed.value.rcvd is None or closed.value.rcvd.code == 1009
    with talk(served) as opened:
        opened.send(Message("echo", {}, (bytes(wire.LARGEST_MESSAGE - 100),)).encode())
        assert len(Message.decode(opened.recv(timeout=20)).blobs[0]) == wire.LARGEST_MESSAGE - 100


def test_there_is_one_session_and_the_newest_has_it(served):
    with talk(served) as first, talk(served) as second:
        with pytest.raises(ConnectionClosed) as closed:
            first.recv(timeout=20)
        assert closed.value.rcvd.code == server.REPLACED
        second.send(Message("echo").encode())
        assert Message.decode(second.recv(timeout=20)).kind == "echo"


def test_pages_that_come_at_once_have_the_session_one_after_the_other():
    class Slow(Echo):
        async def leave(self, peer):
            await asyncio.sleep(0.05)
            self.said.append(("leave", peer))

        async def welcome(self, peer):
            self.said.append(("welcome", peer))

    class Browser:
        def __init__(self, token):
            self.heard, self.closed = asyncio.Queue(), asyncio.Event()
            self.heard.put_nowait({"type": "websocket.receive", "text": json.dumps({"kind": "hello", "token": token})})

        async def accept(self):
            pass

        async def receive(self):
            return await self.heard.get()

        async def close(self, code, words):
            self.heard.put_nowait({"type": "websocket.disconnect", "code": code})
            self.closed.set()

    async def example():
        program = Slow()
        served = Server(program)
        browsers = [Browser(served.gate.token) for _ in range(3)]
        talks = [asyncio.create_task(served._talk(browser)) for browser in browsers]
        await asyncio.wait_for(asyncio.gather(*(browser.closed.wait() for browser in browsers[:2])), 20)
        await asyncio.sleep(0.2)
        assert not browsers[2].closed.is_set()
        await browsers[2].close(1000, "")
        await asyncio.gather(*talks)
        served._socket.close()
        return program.said

    said = asyncio.run(example())
    assert [what for what, _ in said] == ["welcome", "leave"] * 3
    assert all(said[i][1] is said[i + 1][1] for i in (0, 2, 4))


def test_a_program_is_started_and_stopped():
    program = Echo()
    with Server(program).background() as running, talk(running):
        assert program.said == ["start"]
    assert program.said == ["start", "leave", "stop"]


def test_a_program_that_cannot_start_says_why():
    program = Echo()

    async def fail():
        raise ValueError("no weights")

    program.start = fail
    with pytest.raises(ValueError, match="no weights"):
        Server(program).run()


def test_a_port_that_is_taken_is_refused(served):
    with pytest.raises(ValueError, match=r"cannot be listened on.*port=0 takes a free one"):
        Server(Echo(), Settings(port=served.gate.port))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"host": "0.0.0.0"}, "name the one address"),
        ({"host": "192.168.1.2"}, "give a certificate"),
        ({"port": 70000}, "between 0 and 65535"),
        ({"certificate": "a.pem"}, "belong together"),
        ({"certificate": "a.pem", "key": "b.pem"}, "is no file"),
    ],
)
def test_unsafe_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        Settings(**settings)


def test_tokens_are_long_and_differ():
    tokens = {Gate(Settings(), 4000).token for _ in range(20)}
    assert len(tokens) == 20
    assert all(len(token) * 6 >= 128 for token in tokens)


def test_names_in_capitals_and_ports_that_browsers_leave_out_are_known(tmp_path):
    (tmp_path / "a.pem").touch()
    settings = Settings(host="Robot.local", port=443, certificate=tmp_path / "a.pem", key=tmp_path / "a.pem")
    gate = Gate(settings, 443)
    assert all(gate.knows_host(host) for host in ("robot.local:443", "Robot.local", "robot.local"))
    assert gate.knows_origin("https://robot.local", "robot.local")
    assert not gate.knows_host("evil.example")
    assert not Gate(settings, 444).knows_host("robot.local")
    assert Gate(Settings(port=80), 80).knows_host("localhost")
    assert not Gate(Settings(port=443), 443).knows_host("localhost")
