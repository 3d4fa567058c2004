# SPDX-License-Identifier: MIT
"""
Measurements that are made at one distance of the two cores (programs.line_us()). On a virtual
machine the distance may change by a factor of five, and stay so for a second or a minute.
"""
import programs

TRIES = 5
ALIKE = 1.4  # the same distance, measured twice, on a machine with a little to do


def alike(distances):
    return max(distances) <= ALIKE * min(distances)


def together(distance, measurements):
    """
    Make the measurements one after the other, again if the distance changed on the way. Their
    results, and the distance; None: it changed each time.
    """
    for _ in range(TRIES):
        distances, results = [distance()], []
        for measure in measurements:
            results.append(measure())
            distances.append(distance())
        if alike(distances):
            return results, sum(distances) / len(distances)
    return results, None


def ruler(build):
    """Of that build, for together()."""
    return lambda: programs.line_us(build)
