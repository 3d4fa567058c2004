/* SPDX-License-Identifier: MIT */
/* Records of all processes' failures; the log; places of calls in the program's sources. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/text.h"

/* === flight ====================================================================== */

/* The progress of an id of rdma_cm. */

/* clang-format off */
#define AV_CM_PHASES(X) \
	X(IDLE) X(ADDR_BOUND) X(ADDR_RESOLVED) X(ROUTE_RESOLVED) X(LISTEN) \
	X(REQ_SENT) X(REQ_RECEIVED) X(REP_SENT) X(REP_RECEIVED) X(ESTABLISHED) \
	X(DREQ_SENT) X(DREQ_RECEIVED) X(DISCONNECTED)
#define AV_CM_PHASE_ID(name) AV_CM_PHASE_##name,
enum av_cm_phase { AV_CM_PHASES(AV_CM_PHASE_ID) AV_CM_PHASE_N };
/* clang-format on */

/* A phase as a bit of a set of phases */
#define AV_CM_IN(name) (1u << AV_CM_PHASE_##name)

/*
 * The flight recorder is a ring of records in a file of the directory's folder. All the user's
 * processes append one record for each refusal and each failed completion, none for success. The
 * last process removes the file if it has no record. Of two records in one place, or half a record,
 * readers see nothing: docs/concurrency/HANDSHAKES.md.
 */

#define AV_FLIGHT_RECORDS 4096u
#define AV_FLIGHT_FILE	  "flight"

enum av_flight_kind {
	AV_FLIGHT_REFUSAL, /* a verb failed: @verb, @error */
	AV_FLIGHT_REQUEST, /* a send request failed */
	AV_FLIGHT_RECEIVE, /* the responder's side of such a request */
	AV_FLIGHT_FLUSH,   /* @count requests in a row were flushed */
	AV_FLIGHT_EVENT,   /* an asynchronous event that belongs to no recorded request */
	AV_FLIGHT_DROPPED, /* an unreliable message was lost here; no program is notified */
};

enum av_flight_object {
	AV_OBJECT_NONE,
	AV_OBJECT_QP, /* @number: QP number */
	AV_OBJECT_CQ, /* @number: handle, also for SRQ */
	AV_OBJECT_SRQ,
	AV_OBJECT_MR, /* @number: lkey */
	AV_OBJECT_PORT,
};

/* The groups of fields that are valid. The table in observe/check.c gives each field its group. */
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
	AV_HAS_GID = 1u << 12,	     /* @gid: never with AV_HAS_REGION */
	AV_HAS_TAKEN_FOR = 1u << 13, /* @taken_for: never with AV_HAS_ACCESS */
	AV_HAS_DETAIL = 1u << 14,    /* @detail: never with a group that shares its memory */
};

/* Plain data. Fields whose group is not in @has are 0. */
struct av_flight_record {
	uint64_t time_ns;      /* CLOCK_REALTIME */
	uint64_t monotonic_ns; /* CLOCK_MONOTONIC */
	int32_t pid;	       /* the process that owns the object */
	int32_t by;	       /* the process that detected the failure */
	int32_t by_group;      /* the process group of @by */
	char process[16];      /* name of @pid's program; "": unknown */
	char device[64];       /* "": unknown */
	uint32_t has;
	uint16_t check; /* enum av_check: the check that failed */
	uint8_t kind;
	uint8_t object;
	uint32_t number; /* of the object */
	uint16_t verb;	 /* enum av_verb */
	uint8_t status;	 /* enum ibv_wc_status */
	uint8_t remote;	 /* the key was used as an rkey */
	int32_t error;	 /* errno value */
	int32_t event;	 /* enum ibv_event_type */
	uint32_t opcode; /* of the send request */
	uint64_t wr_id;
	uint64_t wanted, limit; /* what the check compared */
	union {
		struct {
			uint32_t count; /* requests covered by a flush record */
			uint32_t key;
			union {
				struct {
					uint64_t address, length;
				};
				uint8_t taken_for[16]; /* the address for which @gid was taken */
			};
			uint32_t access; /* rights needed: enum ibv_access_flags */
			uint32_t pd;	 /* handle of the protection domain in use */
			uint16_t state;	 /* enum ibv_qp_state */
			uint16_t region_kind;
			uint32_t region_access, region_pd, region_qp;
			union {
				struct {
					uint64_t region_address, region_length;
				};
				uint8_t gid[16]; /* of the peer, or the own address in question */
			};
		};
		char detail[64]; /* text: what is mapped, which objects still exist */
	};
	int32_t region_pid; /* the process that registered the region */
	int32_t peer_pid;
	uint32_t peer_qp;
	uint32_t repeats; /* how often the same failure happened in a row; 0: once */
};
static_assert(sizeof(struct av_flight_record) == 240, "with stamp and sum, 256 bytes");

/* --- writing --------------------------------------------------------------------- */

/*
 * Map the ring of a folder; make the file if it is missing, unusable, or of another version. On
 * failure, records nothing. Context: within a change of the directory; keeps errno
 */
void av_flight_join(int folder_fd);

/* Unmap the ring, if mapped. Context: any thread; waits for the threads that use the ring */
void av_flight_leave(void);

/* In a forked child: reset the count of threads that use the ring: they are the parent's. */
void av_flight_forked(void);

/* No process uses the folder: remove an empty ring. As av_flight_join(), but may change errno */
void av_flight_forget(int folder_fd);

/*
 * Append a record, if the ring is mapped. Context: any thread, any lock held; about a microsecond;
 * keeps errno. Return: the record's number + 1; 0: not mapped
 */
uint64_t av_flight_append(const struct av_flight_record *record);

/* Withdraw record @number, unless a later one has overwritten it. Context: as av_flight_append() */
void av_flight_withdraw(uint64_t number);

/*
 * Of records that show nothing yet, only the last one stays: withdraw the one before @number.
 * @last: of these, what av_report() returned last. @number: what it returned now; 0: nothing
 */
void av_flight_replace(_Atomic uint64_t *last, uint64_t number);

/* --- reading --------------------------------------------------------------------- */

struct av_flight_file;

/* Map a ring for reading. NULL, which close accepts: no file, a short one, or of another version */
const struct av_flight_file *av_flight_open(int folder_fd);
void av_flight_close(const struct av_flight_file *file);

/* This process's ring, mapped until av_flight_own_end(). NULL: none, and that is not to be called
 */
const struct av_flight_file *av_flight_own(void);
void av_flight_own_end(void);

/* The number of the next record. Up to AV_FLIGHT_RECORDS records before it are readable. */
uint64_t av_flight_next(const struct av_flight_file *file);

/* The oldest number that may be readable. @next: av_flight_next() */
static inline uint64_t av_flight_first(uint64_t next)
{
	return next > AV_FLIGHT_RECORDS ? next - AV_FLIGHT_RECORDS : 0;
}

/*
 * Copy record @number. Its texts @process and @device end with a NUL. Return: false: it is not
 * written yet, incomplete, withdrawn, or overwritten
 */
bool av_flight_read(const struct av_flight_file *file, uint64_t number,
		    struct av_flight_record *record);

/* Sleep until record @next exists, @ms milliseconds have passed, or a signal arrives. */
void av_flight_wait(const struct av_flight_file *file, uint64_t next, unsigned int ms);

/* === log ========================================================================= */

/*
 * Log lines for people. ANYVERBS_LOG selects the level "off", "warn" (default), "info" or "debug",
 * and with ":FILE" a file instead of standard error. By default users see only warnings that they
 * need, each once. Context: any thread; keeps errno; one write() per line
 */

enum av_log_level { AV_LOG_OFF, AV_LOG_WARN, AV_LOG_INFO, AV_LOG_DEBUG };

/* Are lines of this level written? Cheap */
bool av_log_enabled(enum av_log_level level);

/* Write "anyverbs[PID]: LEVEL: text\n". @fmt has no newline at its end. Cuts lines at 1 KiB. */
void av_log(enum av_log_level level, const char *fmt, ...) AV_PRINTF(2, 3);

/* write(2) without SIGPIPE and SIGXFSZ, which would end the program. Restarts after EINTR. */
ssize_t av_write_quietly(int fd, const void *bytes, size_t n);

/* av_log(AV_LOG_WARN, ...), at most once per call site and process. */
#define av_warn_once(...)                                                          \
	do {                                                                       \
		static _Atomic int av_warned_;                                     \
		if (!__atomic_exchange_n((int *)&av_warned_, 1, __ATOMIC_RELAXED)) \
			av_log(AV_LOG_WARN, __VA_ARGS__);                          \
	} while (0)

/* === source place ================================================================ */

/*
 * The place of a call in the program's sources: function, file and line, from the program's debug
 * information, by elfutils' libdw. Only for a report that the user has turned on: it loads that,
 * opens and reads files, and allocates.
 */

struct av_sources;

/* Load this process's debug information. No lock held; may block. NULL (accepted below): none */
struct av_sources *av_sources_open(void);
void av_sources_close(struct av_sources *s);

/*
 * Write the place of the call that returns to @address: "main, ping.c:40"; without debug
 * information "a.out(main+0x1b)", or as much as is known. For a call in an inline function of a
 * header: where the program calls that. Printable ASCII without quotes and backslashes, cut to
 * @size bytes with NUL. @address NULL: the text is empty
 */
void av_source_place(const struct av_sources *s, const void *address, char *to, size_t size);
