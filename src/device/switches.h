/* SPDX-License-Identifier: MIT */
/*
 * Switches of a device, which real adapters have as firmware settings (mlxconfig): a value in force
 * ("current") and one for after the next reset ("next boot"). "anyverbs config" and "anyverbs
 * reset" change them. Two text files of the user have a line per device, with the switches that are
 * on:
 *
 *   current    BASE/anyverbs-UID.current (BASE: av_folder_base()). Without it, next boot is in
 * force: so it is after a restart that clears BASE. next boot  $XDG_CONFIG_HOME/anyverbs/next-boot
 * or $HOME/.config/anyverbs/next-boot. If that cannot be made, or ANYVERBS_DIR is set:
 * BASE/anyverbs-UID.next-boot.
 *
 * A context takes over what is in force when it is opened. A reset needs that no context which has
 * not failed is open: so all in use agree.
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

/* Was it on when the context was opened? Own or peer's segment; one load. */
static inline bool av_switch_on(const struct av_seg *seg, enum av_switch which)
{
	return seg->head->switches & AV_SWITCH_BIT(which);
}

/* The switch with that name, or AV_SWITCH_N. */
enum av_switch av_switch_by_name(const char *name, size_t length);

/* A switch that is missing in @set although @by, out, needs it; AV_SWITCH_N: none. */
enum av_switch av_switch_lacking(uint32_t set, enum av_switch *by);

/* Of any device, also an unknown one; an unreadable file, or no memory: none. Needs no directory.
 */
struct av_switches av_switches_read(const char *device);

/*
 * Change what the next reset brings into force: the switches in @mask become @on.
 * Context: the directory is joined; no lock held; reads and writes files
 * Return: 0, or an error, and nothing has changed. -EPERM: av_switch_lacking(); -ENOMEM; else
 * -errno of writing
 */
AV_MUST_USE int av_switches_set(const char *device, uint32_t mask, uint32_t on);

/*
 * Bring into force what was set for the next reset, and let the device's counters begin at 0.
 * Contexts in @failed do not count.
 * Context: as av_switches_set()
 * Return: 0; -EBUSY: another context is open in a living process; -ENOMEM; or -errno of
 * writing
 */
AV_MUST_USE int av_switches_reset(const char *device, const uint32_t *failed, size_t count);

/*
 * For av_device_open(): what is in force for a new context, whose device is known. Return: 0 or
 * -ENOMEM
 */
AV_MUST_USE int av_switches_take(const char *device, uint32_t *on);

#endif
