import pytest

from tools.scenarios.transcript import WIDTH, Transcript


@pytest.fixture
def transcript():
    return Transcript()


def test_only_the_chosen_lines_are_shown_and_no_empty_ones(transcript):
    transcript.run("printf 'one\\n\\ntwo\\nthree\\n'", lines=slice(1, None))
    assert transcript.text.splitlines() == ["$ printf 'one\\n\\ntwo\\nthree\\n'", "two", "three"]


def test_long_lines_are_wrapped_but_not_those_of_tables(transcript):
    transcript.run(f"printf '%s\\n' '{'word ' * 40}' '|{'-' * 150}|'")
    *wrapped, table = transcript.text.splitlines()[1:]
    assert len(wrapped) == 2
    assert all(len(line) <= WIDTH for line in wrapped)
    assert len(table) == 152


def test_a_command_that_says_no_is_shown_and_one_that_cannot_run_is_an_error(transcript):
    transcript.run("grep absent /dev/null")
    with pytest.raises(RuntimeError, match="status 2"):
        transcript.run("grep x /no/such/file")


def test_steps_can_be_found_in_the_text(transcript):
    transcript.step("1 Begin")
    transcript.say("Nothing happens")
    assert transcript.text == "\n== 1 Begin\n# Nothing happens\n"
