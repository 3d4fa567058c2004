#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
The files of the guides have the form that Compose and Kubernetes ask for.

  manifests.py SCHEMA FILE

SCHEMA, of JSON Schema, says which fields each document of FILE may have, and of what type: those
that the guides need, by the names of the two specifications. Containers share nothing, and are
given nothing: that is what the guides are about.

Exit status: 0; 1: something does not hold; 77: there is no jsonschema or yaml for Python.
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "clients"))

import pair  # pylint: disable=wrong-import-position

try:
    import jsonschema
    import yaml
except ImportError as error:
    pair.skip("%s (packages python3-jsonschema, python3-yaml)" % error)


def main(schema_path, path):
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft7Validator.check_schema(schema)
    with open(path, encoding="utf-8") as file:
        documents = list(yaml.safe_load_all(file))
    judge = jsonschema.Draft7Validator(schema)
    wrong = 0
    for number, document in enumerate(documents, 1):
        error = jsonschema.exceptions.best_match(judge.iter_errors(document))
        if error:
            wrong += 1
            where = ".".join(str(step) for step in error.absolute_path)
            print("%s: document %d: %s: %s" % (path, number, where, error.message))
    print("%d documents, %d wrong" % (len(documents), wrong))
    return 1 if wrong or not documents else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
