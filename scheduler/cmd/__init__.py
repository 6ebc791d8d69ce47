"""The commands.

- scheduler: berth-scheduler, the daemon; router: berth-router; worker_parts: what their workers are made of;
  check_config: their argument --check-config
- status: berth-status; its commands: upgrade_check: can Berth take the place of nova-scheduler here; audit:
  does Placement agree with nova's databases; findings_table: how both show what they found
- explain: berth-explain; its commands: explain_decisions: questions about decisions that were made;
  explain_host: about a host, explain_host_text: its lines and tables; explain_report: an overview as
  HTML pages
- plan: berth-plan; plan_base: what its commands have in common; plan_commands: questions about the instances
  that exist; plan_requests: about requests that were not made
- shadow: berth-shadow; shadow_commands: its commands
- explain_text, explain_tables, explain_page: answers as lines, as tables, and as a page that is served;
  plan_text: plans
- arguments: types of arguments that several commands have
- operator_app: what all of them but berth-scheduler and berth-router have in common
"""
