import logging

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.nova_db.cells import expand

ONE = "mysql+pymysql://nova:s%40cret@DB.Example.org:3306/nova_cell0?charset=utf8#frag"
BARE = "sqlite:////a/b.db"
SOCKET = "mysql+pymysql://db/nova"
SIX = "mysql+pymysql://u:p@[2001:db8::1]:3306/nova"
SEVERAL = "mysql+pymysql://u1:p1@h1:3306,:p2@H2,u3@h3:3308/nova"
SEVERAL_BARE = "mysql+pymysql://h1:3306,h2:3307/nova"


@pytest.mark.parametrize(
    ("template", "reference", "expected"),
    [
        (
            "{scheme}://{username}:{password}@{hostname}:{port}/nova_cell1?{query}",
            ONE,
            "mysql+pymysql://nova:s%40cret@db.example.org:3306/nova_cell1?charset=utf8",
        ),
        ("{path}|{fragment}", ONE, "nova_cell0|frag"),
        ("{path}|{query}|{fragment}", BARE, "a/b.db||"),
        ("{username}:{password}@{hostname}:{port}", SOCKET, "None:None@db:None"),
        ("[{hostname}]:{port}", SIX, "[2001:db8::1]:3306"),
        ("{username1}:{password1}@{hostname1}:{port1}", SEVERAL, "u1:p1@h1:3306"),
        ("{username2}:{password2}@{hostname2}:{port2}", SEVERAL, ":p2@h2:None"),
        ("{username3}:{password3}@{hostname3}:{port3}", SEVERAL, "u3:None@h3:3308"),
        ("{username}:{password}@{hostname}:{port}", "x://u:p@h1:1,u:p@h2:2/n", "u:p@h1:1,u:p@h2:2"),
        ("{scheme}", SEVERAL_BARE, "{scheme}"),
        ("{username1}", ONE, "{username1}"),
        ("mysql://u:{{x@h/n", ONE, "mysql://u:{x@h/n"),
        ("mysql://u:{x@h/n", ONE, "mysql://u:{x@h/n"),
        ("mysql://u:}x@h/n", ONE, "mysql://u:}x@h/n"),
        ("{unknown}", ONE, "{unknown}"),
        ("{}", ONE, "{}"),
        ("{port}", "x://h:port/n", "{port}"),
        ("plain", ONE, "plain"),
        ("plain", None, "plain"),
        ("{scheme}", None, "{scheme}"),
    ],
)
def test_expand(template, reference, expected):
    assert expand(template, reference, "cell1") == expected


@pytest.mark.parametrize(("template", "reference"), [("{unknown}", ONE), ("{scheme}", None), ("{", ONE)])
def test_what_cannot_be_expanded_is_logged_without_secrets(caplog, template, reference):
    with caplog.at_level(logging.ERROR):
        expand(f"mysql://u:verysecret@h/{template}", reference, "cell1")
    assert "cell1" in caplog.text
    assert "secret" not in caplog.text


@given(st.text(), st.text())
def test_nothing_raises(template, reference):
    assert isinstance(expand(template, reference, "cell1"), str)
