"""What a worker of berth-scheduler is made of."""

from functools import partial
import random

from scheduler import conf as options
from scheduler import manager, service
from scheduler.claims.journal import Journal
from scheduler.nova_service import host_discovery, service_record
from scheduler.rpc import context, notifications, serializer, server, transport


def all_parts():
    """For service.Daemon; to be called before it forks its workers."""
    make = partial(make_manager, journal=Journal())
    return service.Parts(manager=make, server=make_server, periodics=make_periodics)


def make_manager(conf, journal=None):
    """A manager that is not started. Raises ``BerthError`` for options that cannot work."""
    told = notifications.build(conf, serializer.ObjectSerializer())
    return manager.SchedulerManager(conf, told, journal)


def make_server(conf, serving):
    """An RPC server for a manager; not started."""
    return server.build(conf, transport.rpc_transport(conf), serving)


def make_periodics(conf, serving):
    """Heartbeats of the daemon's row among nova's services, and host discovery where it is wanted."""
    engines = serving.hosts.engines
    tell = partial(serving.notifications.service_created, context.RequestContext(is_admin=True))
    row = service_record.OwnService(conf, engines, tell)
    row.beat()
    if conf.report_interval > 0:
        yield service.Periodic("heartbeat", row.beat, conf.report_interval, service_record.FIRST_BEAT)
    interval = host_discovery.interval(conf)
    if interval and conf.periodic_enable:
        finder = host_discovery.Discovery(conf, engines, options.service_down_time(conf))
        delay = random.uniform(0, conf.periodic_fuzzy_delay)
        yield service.Periodic("host discovery", finder.run, interval, delay)
