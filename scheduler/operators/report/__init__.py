"""An overview as HTML pages: the latest decisions, why requests found no host, and the states of all hosts.

- overview: counts over a list of decisions, by cause and over time
- hosts: the state of each host on a snapshot of the cloud
- directory: the files of a report, which take the place of those of the report before
- site: what its pages show
- command: the command
"""
