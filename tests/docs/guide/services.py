#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
The server and the client of compose.yaml, or of Kubernetes' manifest, do what they are for: the
commands in these files are run on two machines that share nothing but a cable (machines.py), as
nobody, without capabilities, below the filter of system calls that engines have by default
(examples/confine.c), with the environment and the health check that the files give them. What
NetworkPolicies let in is all that a firewall lets in, if nft is installed. A volume is a folder
that both have: then no packet is sent; and once more they run without it.

  services.py --tool PROGRAM --library FILE --confine PROGRAM --image DOCKERFILE FILE

No engine is asked: the image's packages, names and restarts are not tested.
Exit status: 0; 1: something does not hold; 77: it cannot be run.
"""
import argparse
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
from collections import namedtuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "clients"))

import families  # pylint: disable=wrong-import-position
import machines  # pylint: disable=wrong-import-position
import pair  # pylint: disable=wrong-import-position
import veth  # pylint: disable=wrong-import-position

try:
    import yaml
except ImportError as error:
    pair.skip("%s (package python3-yaml)" % error)

NAMES = ("server", "client")
WITHOUT_RIGHTS = "setpriv --bounding-set -all --inh-caps -all --no-new-privs".split()
READY_SECONDS = 60
DONE_SECONDS = 60

# @health: words of the command that says whether it is ready; empty if there is none
# @volumes: where it has them
Service = namedtuple("Service", "words environment health volumes")
# @services: by name
# @ports: ("udp", 4791) that are let in, None: all
Scene = namedtuple("Scene", "services ports")


def entrypoint(dockerfile):
    with open(dockerfile, encoding="utf-8") as file:
        return json.loads(re.search(r"^ENTRYPOINT (.*)$", file.read(), re.MULTILINE)[1])


def of_compose(document):
    services = {}
    for name, service in document["services"].items():
        words = service["command"]
        test = service.get("healthcheck", {}).get("test", ["CMD"])
        assert test[0] == "CMD", "not understood: %s" % test
        services[name] = Service(shlex.split(words) if isinstance(words, str) else words,
                                 service.get("environment", {}), test[1:],
                                 [row.split(":")[1] for row in service.get("volumes", ())])
    return Scene(services, None)


def of_pod(pod):
    container, = pod["spec"]["containers"]
    probe = container.get("readinessProbe", {"exec": {"command": []}})
    return Service(container["args"], {e["name"]: e["value"] for e in container.get("env", ())},
                   probe["exec"]["command"], [])


def check_names(kinds):
    """A Pod is found by the name of a Service that selects it."""
    for service in kinds.get("Service", ()):
        chosen = [pod["metadata"]["name"] for pod in kinds["Pod"]
                  if service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()]
        if chosen != [service["metadata"]["name"]]:
            sys.exit("the Service %s leads to %s" % (service["metadata"]["name"], chosen))


def of_kubernetes(documents):
    kinds = {}
    for document in documents:
        kinds.setdefault(document["kind"], []).append(document)
    check_names(kinds)
    ports = [(port["protocol"].lower(), port["port"])
             for policy in kinds.get("NetworkPolicy", ())
             for rule in policy["spec"]["ingress"] for port in rule["ports"]]
    return Scene({pod["metadata"]["name"]: of_pod(pod) for pod in kinds["Pod"]}, ports or None)


def read_scene(path):
    with open(path, encoding="utf-8") as file:
        documents = list(yaml.safe_load_all(file))
    scene = (of_compose(documents[0]) if "services" in documents[0] else
             of_kubernetes(documents))
    if sorted(scene.services) != sorted(NAMES):
        sys.exit("%s: not a server and a client: %s" % (path, " ".join(scene.services)))
    return scene


def let_in(both, ports):
    """Nothing but these, and what answers over TCP."""
    if not shutil.which("nft"):
        print("NetworkPolicy: NOT TESTED: no nft")
        return
    rules = "".join("\t\t%s dport %d accept\n" % port for port in ports)
    for machine in both.values():
        machine.administer("nft", "-f", "-", text=(
            "table inet filter {\n\tchain input {\n"
            "\t\ttype filter hook input priority filter; policy drop;\n"
            "\t\tmeta l4proto { icmp, ipv6-icmp } accept\n"
            "\t\tmeta l4proto tcp ct state established accept\n%s\t}\n}\n" % rules))


def become_ready(machine, health, job):
    """Ask until the health check succeeds. Return: None, or what happened instead"""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if machine.start(health).wait(READY_SECONDS) == 0:
            return None
        if job.wait(machines.POLL_SECONDS) is not None:
            return "the server ended before it was ready"
    return "the server was not ready after %d s" % READY_SECONDS


def settings_of(service, volume):
    """@volume: the folder that is the service's volume, None: it has none"""
    if volume:
        return ["ANYVERBS_TRANSPORT=direct", *(
            "%s=%s" % (name, volume if value in service.volumes else value)
            for name, value in service.environment.items())]
    return ["%s=%s" % (name, value) for name, value in service.environment.items()
            if value not in service.volumes]


def play(both, scene, image, volume=None):
    """Return: None, or what went wrong"""
    jobs = {}
    for name in NAMES:
        service = scene.services[name]
        settings = settings_of(service, volume)
        jobs[name] = both[name].start(["env", *settings, *image, *service.words])
        if service.health:
            problem = become_ready(both[name], service.health, jobs[name])
            if problem:
                return problem
    statuses = {name: job.wait(DONE_SECONDS) for name, job in jobs.items()}
    if any(status != 0 for status in statuses.values()):
        return "exit statuses %s\n%s" % (statuses, "\n".join(j.output() for j in jobs.values()))
    if len(families.PERFTEST_ROW.findall(jobs["client"].output())) != 1:
        return "no row of results:\n" + jobs["client"].output()
    return None


def new_volume(folder):
    path = os.path.join(folder, "volume")
    os.mkdir(path)
    os.chmod(path, 0o700)
    if machines.as_nobody():
        shutil.chown(path, "nobody")
    return path


def main():
    p = argparse.ArgumentParser()
    for option in ("--tool", "--library", "--confine", "--image"):
        p.add_argument(option, required=True)
    p.add_argument("file")
    args = p.parse_args()
    scene = read_scene(args.file)
    pair.require_programs()
    veth.enter()
    with tempfile.TemporaryDirectory(prefix="anyverbs-guide-") as folder:
        env = machines.install(folder, args.tool, args.library)
        confine = shutil.copy(args.confine, os.path.join(folder, "bin", "confine"))
        words = [*machines.as_nobody(), *WITHOUT_RIGHTS, confine]
        with machines.Pair(NAMES, folder, env, words) as both:
            if scene.ports:
                let_in(both, scene.ports)
            problem = play(both, scene, entrypoint(args.image))
            if not problem and any(service.volumes for service in scene.services.values()):
                problem = play(both, scene, entrypoint(args.image), new_volume(folder))
    print("%s: %s" % (os.path.basename(args.file), problem or "the client is served"))
    sys.exit(1 if problem else 0)


if __name__ == "__main__":
    main()
