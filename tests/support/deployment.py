"""The nova.conf of a deployment whose databases nothing reads."""

CONFIGURATION = """\
[DEFAULT]
transport_url = {url}
host = ctl
state_path = {directory}
tempdir = {directory}
[api_database]
connection = sqlite:///{directory}/none.sqlite
[database]
connection = sqlite:///{directory}/none.sqlite
[oslo_concurrency]
lock_path = {directory}
[oslo_messaging_rabbit]
{options}
"""

QUORUM = "rabbit_quorum_queue = true\nrabbit_transient_quorum_queue = true\n"

#: What kolla-ansible sets today, but the queue manager.
KOLLA = f"{QUORUM}rabbit_stream_fanout = true\nrabbit_qos_prefetch_count = 50\n"


def write_configuration(directory, url, options):
    """Write nova.conf into a directory, with options of ``[oslo_messaging_rabbit]``; returns its path."""
    file = directory / "nova.conf"
    file.write_text(CONFIGURATION.format(url=url, directory=directory, options=options))
    return file
