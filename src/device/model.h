/* SPDX-License-Identifier: MIT */
/*
 * The adapters that a device can claim to be, or behave as.
 *
 * A profile of ANYVERBS_DEVICES takes only the identity of its model: programs choose their
 * behaviour by it, and test suites compare it. A device with "as=" also has the model's limits, and
 * refuses what the model lacks with the model's errno value.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "base/text.h"
#include "observe/check.h"

#define AV_MODEL_LACKS 24

/* Facts from the public drivers. Limits: 0: as ours, or the adapter's firmware decides. */
struct av_model {
	const char *profile;		 /* the word of its profile; NULL: none */
	const char *prefix;		 /* a device's name is this prefix and a number */
	const char *firmware;		 /* version, fw_ver */
	const char *type;		 /* hca_type: "CA type" of ibstat */
	const char *board;		 /* board_id */
	uint32_t vendor, part, revision; /* vendor_id, vendor_part_id, hw_ver */
	uint16_t bus_vendor;		 /* in the bus' name space */
	bool gids_paired; /* the GID table has mlx5's pairs of rows: av_gid_table() */
	bool names_host;  /* the node description begins with the host's name, not ours */

	/* For "as=": */
	const char *name;	      /* its word; NULL: none */
	const char *source;	      /* the public files that say so */
	enum ibv_node_type node_type; /* 0: as ours, and so is @transport */
	enum ibv_transport_type transport;
	struct ibv_device_attr limits;	 /* only what av_model_limits[] has */
	uint32_t max_inline, send_sge;	 /* @send_sge: more than limits.max_sge; 0: as many */
	int gids;			 /* rows of the GID table */
	uint32_t no_types;		 /* a bit for each enum ibv_qp_type that it lacks: */
	int no_type_err;		 /* ibv_create_qp() fails with that */
	uint32_t no_access;		 /* flags that it cannot register memory with */
	uint64_t no_opcodes;		 /* av_faults_opcode() of requests that it lacks: */
	int no_opcode_ret;		 /* ibv_post_send() returns that, maybe negative */
	uint8_t no_verb[AV_MODEL_LACKS]; /* enum av_verb; 0 ends */
};

/* The model of each device that ANYVERBS_DEVICES names by a NAME, not by a PROFILE. */
extern const struct av_model av_model_own;

/* Limits only: those of a strict device. */
extern const struct av_model av_model_least;

/* All others, by number, the last NULL. */
const struct av_model *av_model_at(unsigned int number);

/* The limits that a model has, by their names in struct ibv_device_attr. */
struct av_model_limit {
	const char *name; /* NULL: after the last */
	size_t offset;	  /* of its int */
};
extern const struct av_model_limit av_model_limits[];

/* Lower @attr to what @as has, and take away what it lacks. */
void av_model_lower(const struct av_model *as, struct ibv_device_attr *attr);

/* Does @as (NULL: no adapter, which has everything) have it? Pure functions */
bool av_model_has_verb(const struct av_model *as, enum av_verb verb);
bool av_model_has_opcode(const struct av_model *as, uint32_t opcode);

/*
 * Does the device lack the verb, the type of queue pair, one of the access flags, the request with
 * so many elements, since the adapter does that it behaves as? Context: any thread
 * Return: 0; or the adapter's errno value, noted as av_refuse() does
 */
struct av_device;
int av_model_check_verb(const struct av_device *dev, enum av_verb verb);
int av_model_check_type(const struct av_device *dev, enum ibv_qp_type type);
int av_model_check_access(const struct av_device *dev, uint32_t access);
int av_model_check_request(const struct av_device *dev, uint32_t opcode, int elements);
