/* SPDX-License-Identifier: MIT */
/*
 * Switches of a device that are firmware settings of adapters, set there with mlxconfig: each has a
 * value in force ("current"), and one that comes into force with the device's next reset ("next
 * boot"). "anyverbs config" and "anyverbs reset" are for people; this is what they do.
 *
 * Both are small text files of the user's, one line per device with the switches that are on:
 *
 *   current    BASE/anyverbs-UID.current, BASE being where the directory is (registry/folder.h). It
 * does not survive a restart of the machine where BASE does not: then what was to come into force
 * is. next boot  $XDG_CONFIG_HOME/anyverbs/next-boot, without that variable
 * $HOME/.config/anyverbs/next-boot; without either, or where that cannot be made,
 * BASE/anyverbs-UID.next-boot. With ANYVERBS_DIR always the last: what uses a directory of its own
 * has switches of its own.
 *
 * Without the first file, what the second says is in force. Nobody writes either but
 * av_switches_set() and av_switches_reset(), so that devices that are never configured leave
 * nothing behind.
 *
 * A context takes over what is in force when it is opened; no reset happens while one is open that
 * has not failed. So all contexts in use of one device agree.
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

/* A set of switches has these bits. */
#define AV_SWITCH_BIT(which) (1u << (which))

struct av_switch_info {
	const char *name; /* as mlxconfig has it */
	const char *help; /* one line, no full stop */
	uint32_t needs;	  /* switches that must be on where this one is */
};

/* By enum av_switch. All of them are off by default. */
extern const struct av_switch_info av_switch_info[AV_SWITCH_N];

struct av_switches {
	uint32_t current, next; /* sets */
};

/* Was the switch on when the context was opened? Own or peer's segment; any thread; one load. */
static inline bool av_switch_on(const struct av_seg *seg, enum av_switch which)
{
	return seg->head->switches & AV_SWITCH_BIT(which);
}

/* The switch of that name, or AV_SWITCH_N. */
enum av_switch av_switch_by_name(const char *name, size_t length);

/* A switch of @set that is not on in @set itself though another one there needs it; AV_SWITCH_N if
 * there is none. @by: out, which needs it. */
enum av_switch av_switch_lacking(uint32_t set, enum av_switch *by);

/* What is set for a device, known or not. Needs no join; a file that cannot be read has nothing on.
 */
struct av_switches av_switches_read(const char *device);

/**
 * av_switches_set() - what the next reset is to bring into force: the switches of @mask as in @on
 *
 * Context: the directory is joined; no lock held; reads and writes files.
 * Return: 0; -EPERM: a switch would be on without one that it needs (av_switch_lacking()); or
 * -errno of writing. Nothing has changed then.
 */
AV_MUST_USE int av_switches_set(const char *device, uint32_t mask, uint32_t on);

/**
 * av_switches_reset() - bring into force what was set for the next reset
 * @failed, @count: contexts of the device that do not count, because they have failed
 *
 * Context: as av_switches_set().
 * Return: 0; -EBUSY: another context of the device is open in a living process; or -errno of
 * writing
 */
AV_MUST_USE int av_switches_reset(const char *device, const uint32_t *failed, size_t count);

/* For av_device_open(): what is in force for a new context of this process, whose device is known
 * in the directory. */
uint32_t av_switches_take(const char *device);

#endif
