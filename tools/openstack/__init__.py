"""A whole OpenStack cloud on loopback, and what is done to it: the scenarios of tools/berth cloud.

command                the command line
software               virtual environments with OpenStack and its clients, pinned
layout                 what a directory of a cloud keeps: ports, passwords, steps that are done, processes
services               each service of the cloud: its command, its processes, when it is ready
configuration          the files in etc/, filled in
deployment, contents   from nothing to a cloud with zones, flavors, an image and networks
schedulers             which scheduler serves, and how one replaces the other
api                    the API as a user has it; load: operations on servers by several callers
audits                 berth-status audit and nova-manage placement audit
planned_cloud, plans    berth-plan, carried out
tempest, tempest_results, migrate, burst, outage, short    one scenario each
"""
