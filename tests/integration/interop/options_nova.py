"""Run by nova's own Python: the options that nova's sample configuration shows.

options_nova.py prints {"group/name": facts}, as JSON on the last line. With ``of`` it is a module that gives the
facts of one option, for those that compare.
"""

import json
import sys

NAMESPACES = ["nova.conf", "oslo.log", "oslo.messaging", "oslo.db", "oslo.reports", "oslo.concurrency"]
NAMESPACES += ["oslo.service.service", "oslo.service.periodic_task"]


def of(option, default):
    """What is to be the same: type, default, limits, old names."""
    kind = option.type
    old = {
        f"{each.group or 'DEFAULT'}/{(each.name or option.name).replace('-', '_')}"
        for each in option.deprecated_opts
    }
    return {
        "kind": type(option).__name__,
        "type": type(kind).__name__,
        "default": repr(default),
        "limits": [repr(getattr(kind, name, None)) for name in ("min", "max", "max_length")],
        "choices": sorted(map(str, getattr(kind, "choices", None) or ())),
        "old": sorted(old),
        "secret": option.secret,
        "mutable": option.mutable,
    }


def main():
    from oslo_config import generator

    found = {}
    for _namespace, groups in generator._list_opts(NAMESPACES):
        for group, options in groups:
            name = getattr(group, "name", group) or "DEFAULT"
            found |= {f"{name}/{option.dest}": of(option, option.default) for option in options}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
