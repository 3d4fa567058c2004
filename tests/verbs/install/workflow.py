#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
workflow.py WORKFLOW ACTION: the commands of a workflow's first job, as the runner would run them,
as a script for bash. A step that uses this project runs the steps of ACTION, its action.yml; a step
that uses actions/checkout has been done already.
"""
import shlex
import sys

import yaml


def steps(path, *keys):
    with open(path, encoding="utf-8") as f:
        found = yaml.safe_load(f)
    for key in keys:
        found = found[key]
    return found


def commands(wanted, action):
    for step in wanted:
        used = step.get("uses", "")
        if used.startswith(("./", "anyverbs/anyverbs@")):
            yield from commands(action, None)
        elif "run" in step:
            yield step["run"]
        elif not used.startswith("actions/checkout@"):
            sys.exit("workflow.py: what does this step do? %s" % step)


def main():
    workflow, action = sys.argv[1:]
    jobs = steps(workflow, "jobs")
    print("set -eux")
    for text in commands(next(iter(jobs.values()))["steps"], steps(action, "runs", "steps")):
        print("bash -e -o pipefail -c %s" % shlex.quote(text))


if __name__ == "__main__":
    main()
