import socket
import sqlite3
import threading

import pytest
import sqlalchemy as sa

from scheduler.bounds.deadline import Deadline, limit_to
from scheduler.nova_db.connection_watch import ConnectionWatch, close_socket
from tests.support.waiting import eventually


class SocketConnection:
    """Stands in for a driver's connection that reads from a peer which says nothing."""

    def __init__(self):
        self.socket, self.peer = socket.socketpair()

    def fileno(self):
        return self.socket.fileno()

    def read(self):
        return self.socket.recv(1)

    def rollback(self):
        pass

    def close(self):
        self.socket.close()


@pytest.fixture
def engine():
    """An engine whose connections are sockets; only its pool is used."""
    return sa.create_engine(
        "sqlite://", creator=SocketConnection, poolclass=sa.pool.QueuePool, _initialize=False
    )


@pytest.fixture
def make_watch(engine):
    def make(timeout, factor=1.0):
        ConnectionWatch(lambda: timeout).add(engine, "The database of cell one", factor)

    return make


def read_in_thread(connection):
    results = []
    thread = threading.Thread(target=lambda: results.append(connection.read()), daemon=True)
    thread.start()
    return thread, results


def test_a_read_that_hangs_ends_when_the_time_of_the_connection_is_over(engine, make_watch, caplog):
    make_watch(0.1)
    taken = engine.raw_connection()
    thread, results = read_in_thread(taken.dbapi_connection)
    thread.join(60)
    assert results == [b""]
    assert eventually(lambda: "The database of cell one: a connection timed out" in caplog.text)


def test_a_connection_that_was_returned_is_left_alone(engine, make_watch):
    make_watch(0.1)
    taken = engine.raw_connection()
    connection = taken.dbapi_connection
    taken.close()
    connection.peer.sendall(b"x")
    threading.Event().wait(0.4)
    assert connection.read() == b"x"


def test_the_deadline_of_a_request_ends_the_use_of_its_connection(engine, make_watch):
    make_watch(0.2, factor=1000.0)
    with limit_to(Deadline.after(0.1)):
        taken = engine.raw_connection()
    thread, results = read_in_thread(taken.dbapi_connection)
    thread.join(60)
    assert results == [b""]


def watching():
    return [thread for thread in threading.enumerate() if thread.name == "connection-watch"]


def test_without_a_connection_in_use_there_is_no_thread_until_the_next_use(engine, make_watch):
    make_watch(0.1)
    engine.raw_connection().close()
    assert eventually(lambda: not watching())
    taken = engine.raw_connection()
    thread, results = read_in_thread(taken.dbapi_connection)
    thread.join(60)
    assert results == [b""]
    assert eventually(lambda: not watching())


def test_a_connection_without_a_socket_is_no_error():
    close_socket(sqlite3.connect(":memory:"))


def test_a_socket_that_is_closed_already_is_no_error():
    connection = SocketConnection()
    connection.close()
    close_socket(connection)
