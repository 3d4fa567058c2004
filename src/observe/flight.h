/* SPDX-License-Identifier: MIT */
/* The records of failures, of all processes. */
#ifndef AV_OBSERVE_FLIGHT_H
#define AV_OBSERVE_FLIGHT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/text.h"

/* === flight ====================================================================== */

/* How far an id of rdma_cm has come, in the words of records. */

enum av_cm_phase {
	AV_CM_PHASE_IDLE,
	AV_CM_PHASE_ADDR_BOUND,
	AV_CM_PHASE_ADDR_RESOLVED,
	AV_CM_PHASE_ROUTE_RESOLVED,
	AV_CM_PHASE_LISTEN,
	AV_CM_PHASE_REQ_SENT,
	AV_CM_PHASE_REQ_RECEIVED,
	AV_CM_PHASE_REP_SENT,
	AV_CM_PHASE_REP_RECEIVED,
	AV_CM_PHASE_ESTABLISHED,
	AV_CM_PHASE_DREQ_SENT,
	AV_CM_PHASE_DREQ_RECEIVED,
	AV_CM_PHASE_DISCONNECTED,
	AV_CM_PHASE_N
};

/* As a bit of a set */
#define AV_CM_IN(name) (1u << AV_CM_PHASE_##name)

/*
 * The flight recorder: a ring of records in a file of the directory's folder. Every refusal and
 * every failed completion of all the user's processes leaves one record, success none. The file
 * stays when the last process leaves, unless it has no record.
 *
 * A writer takes a ticket, which is also the record's place, and writes the record's stamp last. A
 * half-written record (the writer died, or the ring overtook it) fails its sum, and readers skip
 * it. So nobody waits, and a corrupted ring shows nothing.
 */

#define AV_FLIGHT_RECORDS 4096u
#define AV_FLIGHT_FILE	  "flight"

/* What a record is about. */
enum av_flight_kind {
	AV_FLIGHT_REFUSAL, /* a verb failed: @verb, @error */
	AV_FLIGHT_REQUEST, /* a send request failed */
	AV_FLIGHT_RECEIVE, /* the responder's side of such a request */
	AV_FLIGHT_FLUSH,   /* @count requests in a row were flushed */
	AV_FLIGHT_EVENT,   /* an asynchronous event that belongs to no recorded request */
	AV_FLIGHT_DROPPED, /* an unreliable message was lost here: no program hears of it */
};

enum av_flight_object {
	AV_OBJECT_NONE,
	AV_OBJECT_QP, /* @number: QP number */
	AV_OBJECT_CQ, /* @number: handle, also for SRQ */
	AV_OBJECT_SRQ,
	AV_OBJECT_MR, /* @number: lkey */
	AV_OBJECT_PORT,
};

/* Which groups of fields are valid. observe/flight.h assigns each field to its group. */
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
	AV_HAS_DETAIL = 1u << 14,    /* @detail: never with what it shares memory with */
};

/* Plain data. Fields whose group is not in @has are 0. */
struct av_flight_record {
	uint64_t time_ns;      /* CLOCK_REALTIME */
	uint64_t monotonic_ns; /* CLOCK_MONOTONIC */
	int32_t pid;	       /* the process that owns the object */
	int32_t by;	       /* the process that noticed, */
	int32_t by_group;      /* and its process group */
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
				uint8_t taken_for[16]; /* what @gid stands for here */
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
		char detail[64]; /* in words: what is mapped, which kinds of objects are left */
	};
	int32_t region_pid; /* the process that registered it */
	int32_t peer_pid;
	uint32_t peer_qp;
	uint32_t repeats; /* times in a row that exactly this happened; 0: once */
};
static_assert(sizeof(struct av_flight_record) == 240, "with stamp and sum, 256 bytes");

/* --- writing --------------------------------------------------------------------- */

/*
 * Map the ring of a folder; create it if missing. On failure nothing is recorded from here on.
 * Context: under the directory's change lock.
 */
void av_flight_join(int folder_fd);

/* Unmap the ring, if mapped. Context: any thread; waits for this process's appenders. */
void av_flight_leave(void);

/* In the child of fork(): forget the appenders, whose threads exist only in the parent. */
void av_flight_forked(void);

/* Nobody uses the folder any more: remove the ring if it has no record. Context: as
 * av_flight_join(). */
void av_flight_forget(int folder_fd);

/*
 * Append a record, if joined. Context: any thread, any lock held. About a microsecond.
 * Return: its number + 1; 0: not joined
 */
uint64_t av_flight_append(const struct av_flight_record *record);

/* Take record @number back, unless it has been overwritten. Context: as av_flight_append(). */
void av_flight_withdraw(uint64_t number);

/* --- reading --------------------------------------------------------------------- */

struct av_flight_file;

/* Map a folder's ring for reading. Return: NULL if it is missing or of another version. */
const struct av_flight_file *av_flight_open(int folder_fd);
void av_flight_close(const struct av_flight_file *file);

/* The ring that this process writes to, or NULL; if not NULL, call av_flight_own_end(). */
const struct av_flight_file *av_flight_own(void);
void av_flight_own_end(void);

/* Number of the next record. The AV_FLIGHT_RECORDS numbers before it may still be readable. */
uint64_t av_flight_next(const struct av_flight_file *file);

/* The oldest number that may still be readable, given the next. */
static inline uint64_t av_flight_first(uint64_t next)
{
	return next > AV_FLIGHT_RECORDS ? next - AV_FLIGHT_RECORDS : 0;
}

/* Read record @number. Return: false if it is not there: not yet, overwritten, or incomplete. */
bool av_flight_read(const struct av_flight_file *file, uint64_t number,
		    struct av_flight_record *record);

/* Sleep until a record @next exists, @ms have passed, or a signal arrives. */
void av_flight_wait(const struct av_flight_file *file, uint64_t next, unsigned int ms);

/* === field ======================================================================= */

/* The fields of a record. One table serves the sentences ({name}) and JSON. */

/* How a field is written. In JSON the numeric forms, down to ID, are numbers. */
enum av_field_form {
	AV_FIELD_DEC,
	AV_FIELD_SIGNED,
	AV_FIELD_HEX,
	AV_FIELD_QPN, /* as programs print it: 0x020011 */
	AV_FIELD_ID,  /* decimal, or hex if it is larger than 32 bits: a pointer */
	AV_FIELD_TEXT,
	AV_FIELD_CHECK,
	AV_FIELD_KIND,
	AV_FIELD_OBJECT,
	AV_FIELD_VERB,
	AV_FIELD_OPCODE,
	AV_FIELD_STATUS,
	AV_FIELD_ERRNO,
	AV_FIELD_EVENT,
	AV_FIELD_STATE,
	AV_FIELD_MTU,
	AV_FIELD_TYPE, /* enum ibv_qp_type */
	AV_FIELD_ACCESS,
	AV_FIELD_MASK, /* enum ibv_qp_attr_mask */
	AV_FIELD_REGION_KIND,
	AV_FIELD_FAULT,
	AV_FIELD_GID,
	AV_FIELD_CM_PHASE,
	AV_FIELD_CM_PHASES, /* a set of them */
	AV_FIELD_FORM_N
};

struct av_field {
	const char *name;
	uint16_t offset, bytes;
	uint8_t form;	/* enum av_field_form */
	uint32_t group; /* bits of AV_HAS_, any of which makes the field valid; 0: always valid */
};

#define AV_FIELD_TEXT_MAX 160 /* longest text of a field, NUL included */

const struct av_field *av_fields(unsigned int *count);

/* The field of that name; NULL: unknown. */
const struct av_field *av_field_find(struct av_word name);

/* Is the field valid in this record? */
bool av_field_is_set(const struct av_field *field, const struct av_flight_record *record);

/* The value of a field. Not for AV_FIELD_TEXT, AV_FIELD_GID. */
int64_t av_field_number(const struct av_field *field, const struct av_flight_record *record);

/* Is its natural form a number? */
bool av_field_is_number(const struct av_field *field);

/* Write the field in @form: its own, or one that a sentence asks for. Always ends with a NUL. */
void av_field_write(const struct av_field *field, unsigned int form,
		    const struct av_flight_record *record, char text[AV_FIELD_TEXT_MAX]);

/* The word for a value in one of the forms KIND to CM_PHASE that have a list of them; NULL: none.
 */
const char *av_field_word(unsigned int form, uint64_t value);

/* The form named in a placeholder {name:form}; AV_FIELD_FORM_N: unknown. */
unsigned int av_field_form(struct av_word name);

/* === log ========================================================================= */

/*
 * Log lines for people. Unasked, only warnings that the user must see, each once. ANYVERBS_LOG
 * selects "off", "warn" (default, to standard error), "info" or "debug", and ":FILE". Preserves
 * errno. Thread-safe; one write() per line.
 */

enum av_log_level { AV_LOG_OFF, AV_LOG_WARN, AV_LOG_INFO, AV_LOG_DEBUG };

/* Are lines of this level written? Cheap. */
bool av_log_enabled(enum av_log_level level);

/* Write "anyverbs[PID]: LEVEL: text\n". No trailing newline in @fmt. */
void av_log(enum av_log_level level, const char *fmt, ...) AV_PRINTF(2, 3);

/* Write what the user asked for to standard error, by one write(), as it is. */
void av_log_raw(const char *text, size_t len);

/*
 * write() once, without the signals that would end the program: SIGPIPE (the reader went away),
 * SIGXFSZ (the file is at its size limit). Return: as write(), with errno
 */
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
 * Where in its sources the program made something: function, file and line, if the program has
 * debug information and elfutils' libdw can be loaded, which nothing here depends on. Only for who
 * has asked for a report: it opens and reads files, and allocates.
 */

struct av_sources;

/*
 * Open the debug information of this process. Context: may block, no lock held. Return: to be
 * closed; NULL: there is none, which the others accept
 */
struct av_sources *av_sources_open(void);
void av_sources_close(struct av_sources *s);

/*
 * Write where the call is that returns to @address: "main, ping.c:40", or else "a.out(main+0x1b)",
 * or as much as is known. If the call is in an inline function of a header, that is where the
 * program called this function. ASCII, without quotes, backslashes and control characters. NULL:
 * nothing is written
 */
void av_source_place(const struct av_sources *s, const void *address, char *to, size_t size);

#endif
