"""What deployment tools are given: it names what Berth installs, and what these tools look for."""

import configparser
from importlib.metadata import distribution
import pathlib
import re

import jinja2
from packaging.utils import canonicalize_name
import pytest
import yaml

from scheduler.conf import load
from tests.unit.test_published_logging import OPENSTACK_HELM
from tools import constraints

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"

#: The commands of operators.
OPERATORS = {"berth-status", "berth-explain", "berth-plan", "berth-shadow"}

#: What the template of kolla's image has, as far as an override sees it.
PARENT = "FROM nova-base\n{% block nova_scheduler_footer %}{% endblock %}\nCMD kolla_start\n"


#: What templates of OpenStack-Helm's chart of nova read for the scheduler: the deployment (its grace period since
#: 2026-07, before which the pod had the 30 s of Kubernetes), the image, and the file of the log configuration.
READ_BY_THE_CHART = (
    "conf.logging.",
    "images.tags.nova_scheduler",
    "pod.lifecycle.termination_grace_period.scheduler.timeout",
    "pod.mounts.nova_scheduler.init_container.",
    "pod.mounts.nova_scheduler.nova_scheduler.volumeMounts",
    "pod.mounts.nova_scheduler.nova_scheduler.volumes",
    "pod.probes.rpc_retries",
    "pod.probes.rpc_timeout",
    "pod.replicas.scheduler",
)


def pinned():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def commands():
    return re.findall(r"^ {4}(\S+) = scheduler\.", (ROOT / "setup.cfg").read_text(), re.MULTILINE)


def read_yaml(path):
    return yaml.safe_load((DEPLOY / path).read_text())


def test_each_requirement_has_a_version_that_it_allows():
    versions = pinned()
    for requirement in constraints.direct_requirements():
        version = versions[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), requirement.name


def test_packages_that_requirements_need_have_a_version_too():
    assert set(constraints.needed()) <= set(pinned())
    assert constraints.needed()["numpy"] == distribution("numpy").version


def test_packages_that_another_python_needs_have_a_version():
    classifiers = (ROOT / "setup.cfg").read_text()
    pythons = re.findall(r"^    Programming Language :: Python :: (3\.\d+)$", classifiers, re.MULTILINE)
    assert tuple(pythons) == constraints.PYTHONS
    assert "legacy-cgi" in pinned()


def test_the_override_of_kolla_keeps_its_command_and_links_ours_to_the_name_it_starts():
    templates = jinja2.DictLoader({"parent": PARENT})
    override = (DEPLOY / "kolla/template-override.j2").read_text()
    rendered = jinja2.Environment(loader=templates).from_string(override).render(parent_template="parent")
    assert rendered.split()[:4] == ["FROM", "nova-base", "USER", "root"]
    assert rendered.split("USER nova")[1].split() == ["CMD", "kolla_start"]
    (link,) = re.findall(r"ln -sf (\S+) /var/lib/kolla/venv/bin/nova-scheduler", rendered)
    assert pathlib.PurePath(link).name in commands()
    linked = re.findall(r"/opt/berth/bin/(berth-\S+)", rendered)
    assert {"berth-scheduler", *OPERATORS} == set(linked)


@pytest.mark.parametrize("file", ["Dockerfile", "deploy/kolla/template-override.j2", "debian/rules"])
def test_images_and_packages_carry_out_plans_with_the_libraries_of_the_constraints(file):
    text = (ROOT / file).read_text().replace("\\\n", " ")
    installations = re.findall(r"(?:pip install|tools/install) .*?(?=&&|\n)", text)
    assert installations
    assert all("constraints.txt" in each or "$(PIP_OPTIONS)" in each for each in installations)
    assert any("openstacksdk" in each or "[run]" in each for each in installations)


def test_the_recipes_of_the_page_run_commands_that_the_image_of_kolla_has():
    page = (ROOT / "doc/source/deployment-tools.rst").read_text()
    kolla = page.partition("\nkolla-ansible\n")[2].partition("\nOpenStack-Helm\n")[0]
    run = set(re.findall(r"(?:exec(?: \w+)?) (berth-\w+)", kolla))
    assert run == OPERATORS


def test_the_variables_of_kolla_give_the_state_a_volume():
    variables = read_yaml("kolla/globals.yml")
    assert set(variables) == {
        "nova_scheduler_image",
        "nova_scheduler_tag",
        "nova_scheduler_extra_volumes",
    }
    assert variables["nova_scheduler_extra_volumes"] == ["berth:/var/lib/nova"]


def leaves(value, path=()):
    """The dotted names of all values that are no mappings."""
    if not isinstance(value, dict):
        return {".".join(path)}
    return set().union(*(leaves(each, (*path, name)) for name, each in value.items()))


def test_the_values_of_openstack_helm_are_those_that_its_chart_reads():
    """Helm takes a key that no template reads without a word."""
    given = leaves(read_yaml("openstack-helm/nova-values.yaml"))
    assert {name for name in given if not any(map(name.startswith, READ_BY_THE_CHART))} == set()
    assert "pod.lifecycle.termination_grace_period.scheduler.timeout" in given


def test_the_pod_gets_more_time_to_end_than_its_requests():
    lifecycle = read_yaml("openstack-helm/nova-values.yaml")["pod"]["lifecycle"]
    seconds = lifecycle["termination_grace_period"]["scheduler"]["timeout"]
    assert seconds > load([]).graceful_shutdown_timeout


def test_the_values_of_openstack_helm_mount_what_they_define():
    pod = read_yaml("openstack-helm/nova-values.yaml")["pod"]
    mounts = pod["mounts"]["nova_scheduler"]["nova_scheduler"]
    names = [[entry["name"] for entry in mounts[key]] for key in ("volumes", "volumeMounts")]
    assert names[0] == names[1]
    assert "ARG UID" in (ROOT / "Dockerfile").read_text()


def test_the_values_of_openstack_helm_show_the_warnings_of_libraries_where_berth_logs():
    parser = configparser.ConfigParser()
    parser.read_string(OPENSTACK_HELM)
    for section, values in read_yaml("openstack-helm/nova-values.yaml")["conf"]["logging"].items():
        assert section in parser
        for name, value in values.items():
            parser[section][name] = ", ".join(value) if isinstance(value, list) else value
    assert parser["logger_root"]["handlers"] == parser["logger_nova"]["handlers"]
    assert parser["logger_root"]["level"] == "WARNING"


def test_the_role_of_ansible_uses_variables_that_have_defaults_and_files_that_the_wheel_brings():
    defaults = set(read_yaml("ansible/berth/defaults/main.yml"))
    text = (DEPLOY / "ansible/berth/tasks/main.yml").read_text()
    used = set(re.findall(r"\bberth_[a-z_]+", text))
    assert used - {"berth_check"} == defaults
    (unit,) = re.findall(r"share/berth/(\S+?)\"", text)
    assert f"etc/{unit}" in (ROOT / "setup.cfg").read_text()
    handlers = {handler["name"] for handler in read_yaml("ansible/berth/handlers/main.yml")}
    tasks = read_yaml("ansible/berth/tasks/main.yml")
    assert {task["notify"] for task in tasks if "notify" in task} == handlers


def test_the_role_does_not_swap_unless_it_is_told_to():
    assert read_yaml("ansible/berth/defaults/main.yml")["berth_in_service"] is False
