/* SPDX-License-Identifier: MIT */
/*
 * Switches of a device, as real adapters have them in firmware settings: those in force
 * ("current"), and those after the next reset ("next boot"). Two text files have a line for a
 * device: BASE/anyverbs-UID.current, where BASE is av_folder_base(), and anyverbs/next-boot in the
 * user's configuration folder, else BASE/anyverbs-UID.next-boot. Without the first, the second
 * counts: a restart of the host that clears BASE acts as a reset.
 *
 * A context copies the values in force when it is opened. A reset fails while any context that has
 * not failed is open, so all working contexts agree.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "segment/segment.h"

enum av_switch {
	AV_SWITCH_ADVANCED_PCI,
	AV_SWITCH_CAPI,
	AV_SWITCH_TUNNELED_ATOMIC,
	AV_SWITCH_AS_NOTIFY,
	AV_SWITCH_N
};

/* A set of switches consists of these bits. */
#define AV_SWITCH_BIT(which) (1u << (which))

struct av_switch_info {
	const char *name; /* as in mlxconfig */
	const char *help; /* one line, no full stop */
	uint32_t needs;	  /* set of switches that must be on as well */
};

/* By enum av_switch. All are off by default. */
extern const struct av_switch_info av_switch_info[AV_SWITCH_N];

struct av_switches {
	uint32_t current, next; /* sets */
};

/* Was the switch on when the context was opened? @seg: of this process or of a peer. One load */
static inline bool av_switch_on(const struct av_seg *seg, enum av_switch which)
{
	return seg->head->switches & AV_SWITCH_BIT(which);
}

/* The switch with that name, or AV_SWITCH_N. */
enum av_switch av_switch_by_name(const char *name, size_t length);

/* A switch that @set lacks but another one in @set needs, which is @by; AV_SWITCH_N: none */
enum av_switch av_switch_lacking(uint32_t set, enum av_switch *by);

/*
 * The switches of a device, also of an unknown one. Empty sets if no file is readable, or without
 * memory. Context: the directory need not be joined; reads files
 */
struct av_switches av_switches_read(const char *device);

/*
 * Change the next-boot values: for each switch in @mask, take its bit from @on.
 * Context: the directory is joined; no lock held; reads and writes files
 * Return: 0. -EPERM: the result lacks a switch that another one needs (av_switch_lacking());
 * -ENOMEM; -ENOSPC: the file is full; -EBUSY: av_dir_change_begin(); else -errno of writing
 */
AV_MUST_USE int av_switches_set(const char *device, uint32_t mask, uint32_t on);

/*
 * Bring the next-boot values into force, and restart the device's counters at 0. @failed: @count
 * contexts that may be open, since they have failed. Context and return: as above, but no -EPERM;
 * and -EBUSY: another context is open in a living process
 */
AV_MUST_USE int av_switches_reset(const char *device, const uint32_t *failed, size_t count);

/*
 * The switches in force, for the new context that av_device_open() makes; reads files. The
 * directory is joined and names the context's device: a later reset finds it. Return: 0 or -ENOMEM
 */
AV_MUST_USE int av_switches_take(const char *device, uint32_t *on);
