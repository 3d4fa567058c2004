/* SPDX-License-Identifier: MIT */
/*
 * Switches of a device, which real adapters have as firmware settings (mlxconfig). Each has a value
 * in force ("current") and one for after the device's next reset ("next boot"). People use
 * "anyverbs config" and "anyverbs reset", which call this.
 *
 * Both are small text files of the user, with one line per device that lists the switches that are
 * on:
 *
 *   current    BASE/anyverbs-UID.current (BASE: av_folder_base()). If a restart of the machine
 *              clears BASE, the values for the next reset are in force afterwards.
 *   next boot  $XDG_CONFIG_HOME/anyverbs/next-boot, or $HOME/.config/anyverbs/next-boot if the
 *              variable is not set. If that cannot be made, or ANYVERBS_DIR is set, it is
 *              BASE/anyverbs-UID.next-boot: each directory has switches of its own.
 *
 * If there is no first file, the values of the second are in force. Only av_switches_set() and
 * av_switches_reset() write these files, so devices that nobody configures leave nothing behind.
 *
 * A context takes over what is in force when it is opened. A device cannot be reset while it has an
 * open context that has not failed. So all contexts of a device that are in use agree.
 */
#ifndef AV_DEVICE_SWITCHES_H
#define AV_DEVICE_SWITCHES_H

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

/*
 * Was the switch on when the context was opened? Own or peer's segment. Context: any thread; costs
 * one load.
 */
static inline bool av_switch_on(const struct av_seg *seg, enum av_switch which)
{
	return seg->head->switches & AV_SWITCH_BIT(which);
}

/* The switch with that name, or AV_SWITCH_N. */
enum av_switch av_switch_by_name(const char *name, size_t length);

/*
 * A switch that is missing in @set although a switch in @set needs it; AV_SWITCH_N if there is
 * none. @by: out, the switch that needs it.
 */
enum av_switch av_switch_lacking(uint32_t set, enum av_switch *by);

/*
 * The switches of a device, known or not. A file that cannot be read has nothing on. The directory
 * need not be joined.
 */
struct av_switches av_switches_read(const char *device);

/**
 * av_switches_set() - change what the next reset brings into force
 * @mask: the switches to change
 * @on:   their new values
 *
 * Context: the directory is joined; no lock held; reads and writes files
 * Return: 0, or an error, after which nothing has changed. -EPERM: a switch would be on without one
 * that it needs (av_switch_lacking()); else -errno of writing
 */
AV_MUST_USE int av_switches_set(const char *device, uint32_t mask, uint32_t on);

/**
 * av_switches_reset() - bring into force what was set for the next reset
 * @failed, @count: contexts of the device that have failed, and do not count
 *
 * Context: as av_switches_set()
 * Return: 0; -EBUSY: another context of the device is open in a living process; or -errno of
 * writing
 */
AV_MUST_USE int av_switches_reset(const char *device, const uint32_t *failed, size_t count);

/*
 * What is in force for a new context of this process. The directory already knows its device.
 * Called by av_device_open().
 */
uint32_t av_switches_take(const char *device);

#endif
