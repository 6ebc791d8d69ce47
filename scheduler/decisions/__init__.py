"""Explanations of decisions: documents of requests, and answers to questions about them.

- document: the document of a decision
- trace: notes the decision while it is made; record: what is kept of it, with its hosts
- decision_line: the line of the log on a decision
- failure_cause: the cause of a failure as one of a few codes (cause_code), in one line and with a remedy
- open_requests: the requests in progress, and what each of them waits for
- recorder: keeps each decision of a scheduler, and completes explanations; memory: the latest decisions
- decision_log: their documents on disk, if configured
- rendering: the stages and hosts of a document, for text and page
- host_history: the outcomes of a host in the latest decisions
- providers: what Placement answers an analysis, and has answered some seconds ago
- constraints: the constraints of a query, and the query without one of them
- failure: what a request saw until it failed
- explanation: why no host suits it: query, request, filters and claims together
- failed_constraints: for each host the set of constraints that it fails; words: the same in words
- query_failures: which hosts fail the query, by the mirror and by Placement
"""
