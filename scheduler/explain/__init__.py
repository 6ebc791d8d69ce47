"""Why a request was decided as it was.

- document: the document of a decision, the only form in which it is kept
- trace: notes what a decision does while it is made, straight into its document
- summary: the reason for a failure in one line; failure_cause: its cause as one of a few codes, with a remedy
- recorder: writes the document of every request of a worker; memory: keeps the latest, encoded
- decision_log: the same bytes on disk, if that is wanted; log_reader: reads them back
- rendering: the stages and hosts of a document, for text and page; requested: what is requested besides the
  flavor
- page: a document as an HTML page with pictures (templates/decision.html)
- hosts_now: what the filters say as of now of a host that a document does not name
- host_status: a host as databases and Placement (providers) have it now
- host_history: what became of a host in the latest decisions
- obstacles: what keeps Placement from offering one host
- explainer: answers questions to a worker
- relaxation: which constraint of a query left no candidate, found by asking again without it
- refusals: which limit of their inventories makes hosts refuse an amount
- constraint_names: what constraints are called by operators
- empty_answers: does so in the background for failed requests
- unoffered: why Placement does not offer a host, as far as the host table tells
"""
