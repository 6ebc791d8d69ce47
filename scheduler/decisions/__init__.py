"""Explanations of decisions: documents of requests, and answers to questions about them.

- document: the document of a decision, the only form in which it is kept
- trace: fills the document while the decision is made; host_verdicts: what becomes of its hosts
- summary: the reason for a failure in one line; failure_cause: its cause as one of a few codes
  (cause_code), with a remedy
- open_requests: the requests in progress, and what each of them waits for
- recorder: keeps the document of each request of a scheduler; memory: the latest documents, encoded
- decision_log: the same bytes on disk, if configured
- rendering: the stages and hosts of a document, for text and page
- host_history: the outcomes of a host in the latest decisions
- providers: what Placement answers an analysis
- explainer: answers questions to a scheduler
- constraint_names: the names of constraints for operators
- constraints: the constraints of a query, and the query without one of them
- why_not: for each host the set of constraints that it fails, from arrays; in words
- explanation: why no host suits a request that failed: the mirror, questions, filters and claims together
- completion: asking Placement about it after the request has ended
- remedies: what helps against a constraint in the case at hand
"""
