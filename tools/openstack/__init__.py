"""A whole OpenStack cloud on loopback, and what is done to it: the scenarios of tools/berth cloud.

command                the command line
software, programs     virtual environments with OpenStack and its clients, pinned; running programs; audits
layout                 what a directory of a cloud keeps: ports, passwords, steps that are done
services               each service of the cloud, which supervisor runs: its command, when it is ready;
                       which scheduler serves, and how one replaces the other
configuration          the files in etc/, filled in
deployment, contents   from nothing to a cloud with zones, flavors, an image and networks
api, users             operations on servers, each to its end; several users of the API at the same time
plans                  the table of situations, what is done with the plan of each, and what must hold then
tempest, migrate, burst, outage, shadow, short    one scenario each
"""
