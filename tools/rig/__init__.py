"""The rig of the scenarios in tools/: a cloud, a load, and the truth about what came of it.

command                the options that scenarios share
servers                private RabbitMQ, MariaDB and PostgreSQL
service                what runs in processes of its own
placement, software    Placement in a process of its own; nova and Placement in an environment
fleet, providers       hosts for nova's databases and for Placement
instances              what is on the hosts before a load begins
world                  a cloud of real services by what is wanted of it: databases, proxies, daemons
cloud                  what all clouds have in common, and the processes of schedulers
small_cloud            all services but Placement in one process
nova_cloud             real servers, nova's own schema, Placement behind gunicorn
controller_cloud       real servers for a scheduler in a machine of its own
cluster_cloud          Galera, HAProxy, a RabbitMQ cluster, Placements and Keystone, two daemons
galera, haproxy,       their members, each with an address of its own
rabbit_members,
keystone, namespaces
debian, packages,      systems of Debian with systemd, the package built for them, images of containers
images
load, building         requests as conductors send them, sent by many callers
rows                   what other services of nova write to its databases
truth                  what Placement has, against the replies that callers got
faults, cluster_faults,
tcp_proxy,             what can be broken, and healed
machine, loopback
rounds                 rounds of load, a fault, its healing and the truth
usage, plot            what programs use; drawing into files
"""
