"""The rig of the scenarios in tools/: a cloud, a load, and the truth about what came of it.

servers, vhosts          private RabbitMQ, MariaDB and PostgreSQL; virtual hosts on a RabbitMQ that is there
service                  what runs in processes of its own
placement, software      Placement in this process or in one of its own; nova and Placement in an environment
fleet, providers         hosts for nova's databases and for Placement
instances                what is on the hosts before a load begins
cloud                    what all clouds have in common, and the processes of schedulers
small_cloud              all services in one process
nova_cloud               real servers, nova's own schema, Placement behind gunicorn
chaos_cloud              real servers behind proxies that can be disturbed, several daemons
load                     requests as conductors send them, sent by many callers
truth                    what Placement has, against what callers were told
faults, tcp_proxy,       what can be broken, and healed
machine, loopback
"""
