"""Why a request was decided as it was.

- trace: notes what a decision does while it is made
- record: what is noted: references and bit masks, no texts
- memory: keeps the records of the latest requests within bounds
- recorder: does so for every request of a worker, and logs why a request failed
- summary: the reason for a failure in one line
- document: a record as plain values
- requested: what a request asks for beside its flavor
- decision_log: the same on disk, if that is wanted
- log_reader: reads decisions back from there
- replay: reasons and verdicts for single hosts, from what a record refers to, when they are asked for
- relaxation: which constraint of a query left no candidate, found by asking again without it
- refusals: which limit of their inventories makes hosts refuse an amount
- constraint_names: what constraints are called by operators
- empty_answers: does so in the background for failed requests
- unoffered: why Placement does not offer a host, as far as the host table tells
- explanation: a decision with its stages and hosts, as operators see it
- page: the same as an HTML page with pictures (templates/decision.html)
- explainer: answers questions about the decisions of a worker
"""
