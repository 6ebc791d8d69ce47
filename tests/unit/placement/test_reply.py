import json

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.placement.reply import LARGEST_ERROR, Reply


@given(st.binary())
def test_no_body_is_trusted(body):
    reply = Reply(500, body)
    assert isinstance(reply.data, dict)
    assert isinstance(reply.error, dict)
    assert isinstance(reply.code + reply.detail + reply.text, str)


@given(st.text(), st.text())
def test_no_header_is_trusted(now, changed):
    assert Reply(200, b"", {"Date": now, "Last-Modified": changed}).unchanged_for == 0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        (
            {
                "Date": "Sat, 28 Nov 2026 16:01:19 GMT",
                "Last-Modified": "Sat, 28 Nov 2026 16:00:43 GMT",
            },
            36,
        ),
        ({"Date": "Sat, 28 Nov 2026 16:01:19 GMT"}, 0),
        ({"Last-Modified": "Sat, 28 Nov 2026 16:00:43 GMT"}, 0),
        ({"Date": "Sat, 28 Nov 2026 16:01:19 GMT", "Last-Modified": "Sat, 28 Nov 2026 16:00:43 -0000"}, 0),
        ({}, 0),
    ],
)
def test_seconds_since_the_last_change(headers, seconds):
    assert Reply(200, b"", headers).unchanged_for == seconds


@pytest.mark.parametrize(
    ("body", "code", "detail"),
    [
        (b'{"errors": [{"code": "x", "detail": "a\\n\\n b  "}, {"code": "y"}]}', "x", "a b"),
        (b'{"errors": [{"code": null, "detail": 3}]}', "", "3"),
        (b'{"errors": [{}]}', "", ""),
        (b'{"errors": [1]}', "", ""),
        (b'{"errors": {"a": 1}}', "", ""),
        (b'{"error": {"message": "of Keystone"}}', "", ""),
    ],
)
def test_error(body, code, detail):
    reply = Reply(400, body)
    assert (reply.code, reply.detail) == (code, detail)


def test_text_of_a_large_body_is_cut():
    assert len(Reply(503, b"x" * 10_000).text) == 2000


def test_a_long_detail_is_cut_for_log_lines():
    reply = Reply(409, json.dumps({"errors": [{"detail": "x" * 100_000}]}).encode())
    assert len(reply.detail) == 2000
    assert len(reply.summary) < 2100


def test_a_body_that_is_larger_than_any_error_is_not_looked_into():
    body = b'{"errors": [{"code": "placement.concurrent_update", "detail": "%s"}]}'
    assert Reply(409, body % (b"x" * 1000)).code == "placement.concurrent_update"
    large = Reply(409, body % (b"x" * LARGEST_ERROR))
    assert large.code == large.detail == ""
    assert large.summary.startswith("Placement answers 409: {")
