/* SPDX-License-Identifier: MIT */
#ifndef AV_DEVICE_MODEL_H
#define AV_DEVICE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

/*
 * The adapter that a device claims to be. Programs choose their behaviour by the model, and test
 * suites compare it. The model changes no capability and no limit: all devices share those.
 */

struct av_model {
	const char *profile;		 /* the model's word in ANYVERBS_DEVICES; NULL: none */
	const char *prefix;		 /* a device's name is this prefix and a number */
	const char *firmware;		 /* version, fw_ver */
	const char *type;		 /* hca_type: "CA type" of ibstat */
	const char *board;		 /* board_id */
	uint32_t vendor, part, revision; /* vendor_id, vendor_part_id, hw_ver */
	uint16_t bus_vendor;		 /* in the bus' name space */
	bool gids_paired; /* the GID table has mlx5's pairs of rows: av_gid_table() */
	bool names_host;  /* the node description begins with the host's name, not ours */
};

/* The model of each device that ANYVERBS_DEVICES names by a NAME, not by a PROFILE. */
extern const struct av_model av_model_own;

/* Return: the model of that profile, or NULL. Context: any thread; a pure function */
const struct av_model *av_model_find(struct av_word profile);

#endif
