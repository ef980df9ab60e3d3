"""The live page: one page on the loopback address, and nothing else for nobody else."""

import http.client
import socket
import threading

import pytest

from flexdome.cli import main
from flexdome.experiments import Store
from flexdome.report import ReportServer, make_page


def served(server):
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    return thread


@pytest.fixture(scope="module")
def server(store):
    with ReportServer(store) as server:
        thread = served(server)
        yield server
        server.shutdown()
        thread.join(10.0)


def ask(server, path="/", method="GET", body=None, **headers):
    connection = http.client.HTTPConnection(*server.server_address, timeout=30.0)
    try:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body=body, headers=names)
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())
    finally:
        connection.close()


def raw(server, data):
    """The first line of the answer to these bytes."""
    with socket.create_connection(server.server_address, timeout=30.0) as connection:
        connection.sendall(data)
        return connection.makefile("rb").readline().decode()


def test_the_page_is_served_on_the_loopback_address_alone(server, store):
    assert server.server_address[0] == "127.0.0.1"
    status, body, headers = ask(server)
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    state = server.live.state()
    assert body.decode() == make_page(store, live=state).html
    assert b"connect-src 'self'" in body
    assert ask(server, "/state")[1].decode() == state
    assert ask(server, Host=f"localhost:{server.server_port}")[0] == 200
    assert ask(server, method="HEAD")[:2] == (200, b"")


def test_a_page_on_disk_asks_nobody(page):
    assert b"connect-src 'none'" in page.read_bytes()


@pytest.mark.parametrize(
    "path",
    [
        "/report.html",
        "/runs/",
        "/experiments",
        "/../../etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/./",
        "/state/../runs",
        "/?file=../x",
        "/\\..\\x",
        "*",
    ],
)
def test_no_other_path_leads_anywhere(server, path):
    request = f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n"
    assert raw(server, request.encode()).split()[1] == "404"


@pytest.mark.parametrize(
    "host", ["example.org", "127.0.0.1", "localhost:1", "[::1]:80", "127.0.0.1.example.org:{port}", ""]
)
def test_another_host_is_refused(server, host):
    status, body, _ = ask(server, Host=host.format(port=server.server_port))
    assert status == 421
    assert b"<" not in body


def test_no_host_and_two_hosts_are_refused(server):
    assert raw(server, b"GET / HTTP/1.0\r\n\r\n").split()[1] == "421"
    line = f"Host: 127.0.0.1:{server.server_port}\r\n"
    assert raw(server, f"GET / HTTP/1.0\r\n{line}{line}\r\n".encode()).split()[1] == "421"


@pytest.mark.parametrize(
    "header",
    [
        {"Origin": "http:" + "//example.org"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_other_peoples_pages_are_refused(server, header):
    assert ask(server, **header)[0] == 403
    assert ask(server, "/state", **header)[0] == 403


def test_a_page_of_its_own_is_answered(server):
    assert ask(server, "/state", Origin=server.address.rstrip("/"), Sec_Fetch_Site="same-origin")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_but_reading_is_allowed(server, method):
    assert ask(server, method=method)[0] == 405


def test_oversized_requests_are_refused(server):
    assert ask(server, "/" + "a" * 300)[0] == 414
    assert ask(server, "/" + "a" * 70_000)[0] == 414
    assert ask(server, Cookie="a" * 9_000)[0] == 431
    assert ask(server, Cookie="a" * 70_000)[0] == 431
    assert ask(server, **{f"X{k}": "1" for k in range(150)})[0] == 431
    assert ask(server, body=b"x")[0] == 413
    line = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert raw(server, line.encode()).split()[1] == "413"
    assert ask(server)[0] == 200


def test_the_page_follows_the_runs_as_they_finish(tmp_path, store):
    (spec,) = (spec for spec in store.experiments() if spec.name == "plain")
    part = Store(tmp_path / "part")
    with ReportServer(part, rest=0.0) as server:
        thread = served(server)
        assert b"holds no experiment" in ask(server)[1]
        states = [server.live.state()]
        with part.writing():
            part.remember(spec)
            states.append(server.live.state())
            assert b"holds no complete run" in ask(server)[1]
            for k, run in enumerate(list(spec.runs())[:2], 1):
                frame = store.read(run)
                part.finish(run, {name: frame[name].to_numpy() for name in frame.columns}, {})
                server.live._looked = -float("inf")
                assert f"{6 - k} of 6 runs are not there yet".encode() in ask(server)[1]
                states.append(ask(server, "/state")[1].decode())
        assert len(set(states)) == len(states)
        server.shutdown()
        thread.join(10.0)


def test_a_port_that_is_taken_is_one_line(server, store, capsys):
    assert main(["report", str(store.path), "--serve", "--port", str(server.server_port)]) == 1
    assert "cannot be had" in capsys.readouterr().err
    assert main(["report", str(store.path), "--serve", "--port", "70000"]) == 2
