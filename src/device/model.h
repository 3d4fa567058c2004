/* SPDX-License-Identifier: MIT */
/*
 * Which adapter a device says it is. Programs choose their behaviour by it, and test suites compare
 * it. Nothing of this says what the device can do: capabilities and limits are those of all.
 */
#ifndef AV_DEVICE_MODEL_H
#define AV_DEVICE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/word.h"

struct av_model {
	const char *profile;		 /* its word in ANYVERBS_DEVICES; NULL: none */
	const char *prefix;		 /* of its devices' names, in front of a number */
	const char *firmware;		 /* version, fw_ver */
	const char *type;		 /* hca_type: "CA type" of ibstat */
	const char *board;		 /* board_id */
	uint32_t vendor, part, revision; /* vendor_id, vendor_part_id, hw_ver */
	uint16_t bus_vendor;		 /* in the bus' name space */
	bool gids_paired;		 /* the GID table is that of mlx5: av_gid_table() */
	bool names_host;		 /* its description begins with the host's name, not ours */
};

/* Devices that are named one by one are of this model. */
extern const struct av_model av_model_own;

/* The model of that profile, or NULL. */
const struct av_model *av_model_find(struct av_word profile);

#endif
