from scheduler.conf.option_pairs import parse_options


def test_options_are_parsed_or_named_in_a_warning(caplog):
    options = ["a=1", "b=x", "=2", "c", "a=3", "d =4"]
    assert parse_options(options, converter=int, name="setting") == [("a", 1), ("a", 3), ("d ", 4)]
    assert "setting: ignoring b=x, =2, c" in caplog.text
    assert parse_options(["a:b=c"], ":") == [("a", "b=c")]
