"""``berth-explain``: answers of schedulers and of the decision log, as text, tables and pages.

- main: the program
- decision_commands: questions about decisions that were made
- waiting_command: the requests in progress
- host_commands: about a host, as of now and in the latest decisions; host_text: its lines and tables
- text: answers as lines; requested: what is requested besides the flavor
- page: a document as an HTML page (templates/decision.html); page_server: serving it once
- log_reader: reads decision logs
"""
