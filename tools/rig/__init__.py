"""The rig of the scenarios in tools/: a cloud, a load, and the truth about what came of it.

command                the options that scenarios share
servers                private RabbitMQ, MariaDB and PostgreSQL
service                what runs in processes of its own
placement, software    Placement in a process of its own; nova and Placement in an environment
draw, wanted           clouds and requests by chance
fleet, providers       hosts for nova's databases and for Placement
instances              what is on the hosts before a load begins
memory                 hosts as the host table of a scheduler
refusing_cloud         drawn hosts on a Placement that serves one cloud after the other
world                  a cloud by what is wanted of it: hosts, databases, Placement, bus, daemons, conductors
parts, schedulers      how each part of a world is started
cluster                the parts of a cluster: Galera, HAProxy, RabbitMQ, Placements and Keystone
memory_bus             a scheduler on the bus in memory
galera, haproxy,       their members, each with an address of its own
rabbit_members,
keystone, namespaces
debian, packages,      systems of Debian with systemd, the package built for them, images of containers
images
load, building         requests as conductors send them, sent by many callers
rows                   what other services of nova write to its databases
truth                  what Placement has, against the replies that callers got
faults, machine,       what can be broken, and healed
tcp_proxy, loopback,
faulty_proxy
rounds                 rounds of load, a fault, its healing and the truth
usage                  what programs use
"""
