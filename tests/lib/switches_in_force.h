/* SPDX-License-Identifier: MIT */
/* Switches of devices (anyverbs config), put into force for devices that are opened afterwards. */
#ifndef TEST_SWITCHES_IN_FORCE_H
#define TEST_SWITCHES_IN_FORCE_H

/**
 * switches_in_force() - turn on these switches of "any0", and no others
 * @names: separated by spaces; NULL: none, and no file remains
 *
 * Writes the file in the sandbox (lib/sandbox.h) that "anyverbs reset" writes. Nobody may have a
 * device open.
 */
void switches_in_force(const char *names);

#endif
