/* SPDX-License-Identifier: MIT */
/* Switches of devices (anyverbs config), put into force for devices that are opened afterwards. */
#ifndef TEST_SWITCHES_IN_FORCE_H
#define TEST_SWITCHES_IN_FORCE_H

/**
 * switches_in_force() - these switches of "any0" are on, and no others
 * @names: separated by spaces; NULL: none, and no file is left
 *
 * Writes the file of the sandbox (lib/sandbox.h) that "anyverbs reset" writes. Nobody has a device
 * open.
 */
void switches_in_force(const char *names);

#endif
