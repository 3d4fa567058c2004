/* SPDX-License-Identifier: MIT */
/*
 * The flight recorder: a ring of records in a file of the directory's folder, one record for each
 * refusal and each completion without success, of all processes of the user. It outlives those who
 * wrote it: the file stays when the last process leaves, if there is anything in it.
 *
 * Appending takes a ticket by one addition, which is also the record's place, and writes the
 * record's stamp last. What is half written (its writer died, or was overtaken by the whole ring)
 * does not agree with its sum, and readers pass over it. So nobody waits for anybody, and a ring
 * that somebody has filled with nonsense shows nothing.
 *
 * Nothing of this happens where requests succeed.
 */
#ifndef AV_OBSERVE_FLIGHT_H
#define AV_OBSERVE_FLIGHT_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

#define AV_FLIGHT_RECORDS 4096u
#define AV_FLIGHT_FILE	  "flight"

/* What a record is about. */
enum av_flight_kind {
	AV_FLIGHT_REFUSAL, /* a verb that failed: @verb, @error */
	AV_FLIGHT_REQUEST, /* a send request that completed without success */
	AV_FLIGHT_RECEIVE, /* what became of the responder of such a request */
	AV_FLIGHT_FLUSH,   /* @count requests in a row, flushed */
	AV_FLIGHT_EVENT,   /* an asynchronous event that no request of another record stands for */
	AV_FLIGHT_KIND_N
};

enum av_flight_object {
	AV_OBJECT_NONE,
	AV_OBJECT_QP, /* @number: QP number */
	AV_OBJECT_CQ, /* handle, as of the others */
	AV_OBJECT_SRQ,
	AV_OBJECT_MR, /* lkey */
	AV_OBJECT_PORT,
	AV_OBJECT_N
};

/* Which groups of fields mean something; observe/field.h says which field is in which. */
enum {
	AV_HAS_OBJECT = 1u << 0,
	AV_HAS_VERB = 1u << 1,	  /* @verb, @error */
	AV_HAS_REQUEST = 1u << 2, /* @opcode, @wr_id */
	AV_HAS_STATUS = 1u << 3,
	AV_HAS_EVENT = 1u << 4,
	AV_HAS_MEASURE = 1u << 5, /* @wanted, @limit */
	AV_HAS_ACCESS = 1u << 6,  /* @key, @address, @length, @access, @pd */
	AV_HAS_REGION = 1u << 7,
	AV_HAS_PEER = 1u << 8,
	AV_HAS_COUNT = 1u << 9,
	AV_HAS_STATE = 1u << 10,
	AV_HAS_REGION_QP = 1u << 11,
};

/* Plain data; fields that no group of @has covers are 0. */
struct av_flight_record {
	uint64_t time_ns;      /* CLOCK_REALTIME */
	uint64_t monotonic_ns; /* CLOCK_MONOTONIC */
	int32_t pid;	       /* the process concerned, which owns the object */
	int32_t by;	       /* the process that found out; its name: */
	char process[16];
	char device[64]; /* "": not known */
	uint32_t has;
	uint16_t check; /* enum av_check: what was not as it must be */
	uint8_t kind;
	uint8_t object;
	uint32_t number; /* of the object */
	uint16_t verb;	 /* enum av_verb */
	uint8_t status;	 /* enum ibv_wc_status */
	uint8_t remote;	 /* the key was used as an rkey */
	int32_t error;	 /* errno value */
	int32_t event;	 /* enum ibv_event_type */
	uint32_t opcode; /* of the send request */
	uint32_t state;	 /* enum ibv_qp_state */
	uint64_t wr_id;
	uint64_t wanted, limit; /* what the check compared */
	uint32_t count;		/* of requests that a flush record stands for */
	uint32_t key;
	uint64_t address, length;
	uint32_t access; /* rights that were needed: enum ibv_access_flags */
	uint32_t pd;	 /* handle of the protection domain in force */
	uint32_t region_kind, region_access, region_pd, region_qp;
	uint64_t region_address, region_length;
	int32_t region_pid; /* who registered it */
	int32_t peer_pid;
	uint32_t peer_qp;
	uint32_t repeats; /* how often exactly this has happened in a row, if more than once */
};
static_assert(sizeof(struct av_flight_record) == 240, "with stamp and sum, 256 bytes");

/* --- writing --------------------------------------------------------------------- */

/**
 * av_flight_join() - map the ring of a folder, making it if there is none
 * @folder_fd: borrowed
 *
 * Context: one process at a time (the directory's change lock). Without memory or room: nothing is
 * recorded.
 */
void av_flight_join(int folder_fd);

/* Unmap it, if it is mapped. Context: any; waits for appenders of this process. */
void av_flight_leave(void);

/* In the child of a fork(): what other threads were doing, they do in the parent. */
void av_flight_forked(void);

/* Nobody uses the folder any more: remove the ring if nothing was ever recorded. Context: as
 * av_flight_join()
 */
void av_flight_forget(int folder_fd);

/* Append a record. Context: any thread, any lock held; about a microsecond. Not joined: nothing
 * happens */
void av_flight_append(const struct av_flight_record *record);

/* --- reading --------------------------------------------------------------------- */

struct av_flight_file;

/* Map the ring of a folder for reading. Return: NULL if there is none, or not one of this version
 */
const struct av_flight_file *av_flight_open(int folder_fd);
void av_flight_close(const struct av_flight_file *file);

/* The ring this process writes to, until av_flight_own_end(); NULL if none, and nothing is to be
 * ended then.
 */
const struct av_flight_file *av_flight_own(void);
void av_flight_own_end(void);

/* Number of the next record; those there may be have one of the AV_FLIGHT_RECORDS numbers before.
 */
uint64_t av_flight_next(const struct av_flight_file *file);

/* Number of the first that there may be, given the next. */
static inline uint64_t av_flight_first(uint64_t next)
{
	return next > AV_FLIGHT_RECORDS ? next - AV_FLIGHT_RECORDS : 0;
}

/* Read record @number. Return: false if it is not there (yet, any more, or whole) */
bool av_flight_read(const struct av_flight_file *file, uint64_t number,
		    struct av_flight_record *record);

/* Sleep until there is a record behind @next, or @ms are over, or a signal came. */
void av_flight_wait(const struct av_flight_file *file, uint64_t next, unsigned int ms);

#endif
