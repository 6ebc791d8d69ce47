"""Questions with large answers, which the workers of one daemon ask Placement once for all of them.

Who asks does not matter to Placement's answer: the request context is for its log alone.
"""

from collections.abc import Callable
from typing import Any

from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementError
from scheduler.request.query import MICROVERSION
from scheduler.shared_answers import SharedAnswer, SharedAnswers


class QuestionRefused(PlacementError):
    """Placement answered a question with an error."""


class Questions:
    """Asks Placement, or takes the answers that other workers got. Any thread may use it.

    Attributes:
        client: Sends them, and what is not shared.
    """

    def __init__(self, client: PlacementClient, answers: SharedAnswers, at_once: int = 0) -> None:
        """Ask through a client.

        Args:
            client: Sends the questions.
            answers: What Placement answered to other workers.
            at_once: How many questions of all workers are in flight; 0: any number.
        """
        self.client = client
        self._answers = answers
        self._at_once = at_once

    @property
    def shared(self) -> bool:
        """Whether there are other workers to share answers with."""
        return self._answers.shared

    def ask(
        self,
        path: str,
        not_before: float,
        context: Any = None,
        sending: Callable[[float], None] = lambda _moment: None,
    ) -> SharedAnswer:
        """Return the body of the answer to a GET that was sent at ``not_before`` or later.

        Args:
            path: Path and query.
            not_before: Seconds of the clock of the answers.
            context: The request context whose id is sent along.
            sending: Called when this worker or another one sends the question, or is about to: with a moment
                before that, at ``not_before`` or later.

        Raises:
            PlacementSilent: There was no response.
            QuestionRefused: The response is an error.
        """

        def send() -> bytes:
            reply = self.client.get(path, MICROVERSION, context, search=True)
            if reply.status != 200:
                raise QuestionRefused(reply.summary)
            return reply.body

        question = f"Placement {MICROVERSION} {path}"
        return self._answers.get(question, not_before, send, self._at_once, sending)
