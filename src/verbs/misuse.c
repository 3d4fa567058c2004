/* SPDX-License-Identifier: MIT */
#include "verbs/misuse.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "transport/transport.h"

#define FINDINGS_MAX 1000 /* of a context; further ones are only counted */
#define FAIL_STATUS  86	  /* the exit status that "fail" puts in the place of 0 */

enum { AV_MISUSE_ON = 1, AV_MISUSE_JSON = 2, AV_MISUSE_FAIL = 4 }; /* of av_misuse_mode */

enum av_misuse {
	AV_MISUSE_NOT_DESTROYED,
	AV_MISUSE_WRONG_ORDER,
	AV_MISUSE_UNMAPPED,
	AV_MISUSE_UNACKNOWLEDGED,
	AV_MISUSE_RAN_DRY,
	AV_MISUSE_NEVER_POLLED,
	AV_MISUSE_OVERRUN,
	AV_MISUSE_BUFFER_CHANGED,
	AV_MISUSE_IN_ERROR,
	AV_MISUSE_N
};

struct av_finding {
	struct av_finding *next; /* of a context; newest first, until they are taken */
	enum av_misuse misuse;
	struct av_misuse_object of;
	uint64_t count;
};

static const struct {
	const char *name, *text;
} misuses[AV_MISUSE_N] = {
	[AV_MISUSE_NOT_DESTROYED] = {"not-destroyed", "was not destroyed"},
	[AV_MISUSE_WRONG_ORDER] = {"wrong-order",
				   "could not be destroyed because it was in use (EBUSY)"},
	[AV_MISUSE_UNMAPPED] = {"unmapped", "was unmapped while registered"},
	[AV_MISUSE_UNACKNOWLEDGED] = {"unacknowledged", "events were not acknowledged"},
	[AV_MISUSE_RAN_DRY] = {"ran-dry", "requests found no receive posted"},
	[AV_MISUSE_NEVER_POLLED] = {"never-polled", "received completions but was never polled"},
	[AV_MISUSE_OVERRUN] = {"overrun", "was too full for a completion"},
	[AV_MISUSE_BUFFER_CHANGED] =
		{"buffer-changed", "buffers of send requests were changed before their completion"},
	[AV_MISUSE_IN_ERROR] = {"in-error", "failed, and the program cannot have noticed"},
};

_Atomic int av_misuse_mode;
static atomic_bool found_any;
static int exit_status; /* as passed to exit() so far */

/* --- the setting ----------------------------------------------------------------- */

static void note_status(int status, void *arg)
{
	exit_status = status;
}

static void read_setting(void)
{
	const char *text = secure_getenv("ANYVERBS_CHECK");
	int mode = 0;

	while (text && *text) {
		struct av_word word = {text, strcspn(text, ",")};

		if (av_word_is(word, "1"))
			mode |= AV_MISUSE_ON;
		else if (av_word_is(word, "json"))
			mode |= AV_MISUSE_ON | AV_MISUSE_JSON;
		else if (av_word_is(word, "fail"))
			mode |= AV_MISUSE_ON | AV_MISUSE_FAIL;
		else if (!av_word_is(word, "0"))
			av_log(AV_LOG_WARN, "ANYVERBS_CHECK: '%.*s' is not 0, 1, json or fail",
			       (int)word.len, text);
		text += word.len + (text[word.len] == ',');
	}
	if (mode & AV_MISUSE_FAIL)
		(void)!on_exit(note_status, NULL);
	atomic_store(&av_misuse_mode, mode);
}

void av_misuse_begin(struct av_context *ctx)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_setting);
	if (av_misuse_on())
		atomic_fetch_or(&ctx->seg->head->observers, AV_OBSERVER_MISUSE);
}

/* --- collecting ------------------------------------------------------------------ */

/* Adds a finding to the object's context unless @count is 0. */
static void add_misuse_finding(struct av_misuse_object of, enum av_misuse misuse, uint64_t count)
{
	struct av_findings *all = &of.ctx->findings;
	struct av_finding *f;

	if (!count)
		return;
	atomic_store(&found_any, true);
	f = atomic_fetch_add(&all->count, 1) < FINDINGS_MAX ? malloc(sizeof(*f)) : NULL;
	if (!f)
		return;
	*f = (struct av_finding){atomic_load(&all->last), misuse, of, count};
	while (!atomic_compare_exchange_weak(&all->last, &f->next, f))
		;
}

int av_misuse_busy(enum av_verb verb, struct av_misuse_object of)
{
	if (av_misuse_on())
		add_misuse_finding(of, AV_MISUSE_WRONG_ORDER, 1);
	return av_fail_errno(verb, EBUSY);
}

/* --- writing --------------------------------------------------------------------- */

static bool is_a(const struct av_misuse_object *of, const char *kind)
{
	return strcmp(of->kind, kind) == 0;
}

static int format_finding_line(char *to, size_t size, const struct av_finding *f,
			       const struct av_sources *sources, bool json)
{
	const char *device = f->of.ctx->dev->ibv.name;
	char where[300];
	int n;

	av_source_place(sources, f->of.made_at, where, sizeof(where));
	if (json)
		return snprintf(to, size,
				"{\"misuse\":\"%s\",\"pid\":%d,\"device\":\"%s\",\"object\":\"%s\","
				"\"number\":%u,\"count\":%" PRIu64 ",\"made_at\":\"%s\"}\n",
				misuses[f->misuse].name, (int)getpid(), device, f->of.kind,
				f->of.number, f->count, where);
	n = snprintf(to, size, "anyverbs[%d]: check: %s: %s ", (int)getpid(), device, f->of.kind);
	/* The number as programs and explanations write it. A region's is its key. */
	n += snprintf(to + n, size - (size_t)n,
		      is_a(&f->of, "QP")   ? "0x%06x: "
		      : is_a(&f->of, "MR") ? "0x%x: "
					   : "%u: ",
		      f->of.number);
	if (f->count > 1)
		n += snprintf(to + n, size - (size_t)n, "%" PRIu64 " times: ", f->count);
	return n + snprintf(to + n, size - (size_t)n, "%s%s%s%s\n", misuses[f->misuse].text,
			    *where ? " (made at " : "", where, *where ? ")" : "");
}

/* Uses no stdio: the program may have closed its streams. */
static void write_finding(const struct av_finding *f, const struct av_sources *sources)
{
	bool json = atomic_load(&av_misuse_mode) & AV_MISUSE_JSON;
	char line[1024];
	int n = format_finding_line(line, sizeof(line), f, sources, json);

	if (n > 0)
		(void)!write(STDERR_FILENO, line,
			     (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
}

void av_misuse_waits(struct av_misuse_object of, uint32_t count)
{
	struct av_sources *sources = av_sources_open();

	atomic_store(&found_any, true);
	write_finding(&(struct av_finding){NULL, AV_MISUSE_UNACKNOWLEDGED, of, count}, sources);
	av_sources_close(sources);
}

/* Takes those of a context, in order of time. */
static struct av_finding *take_findings(struct av_findings *all)
{
	struct av_finding *last = atomic_exchange(&all->last, NULL), *first = NULL, *next;

	for (; last; last = next) {
		next = last->next;
		last->next = first;
		first = last;
	}
	return first;
}

static void report_findings(struct av_context *ctx)
{
	uint64_t more = atomic_exchange(&ctx->findings.count, 0);
	struct av_finding *f = take_findings(&ctx->findings), *next;
	struct av_sources *sources = f ? av_sources_open() : NULL;

	for (; f; f = next) {
		next = f->next;
		write_finding(f, sources);
		free(f);
		more -= more > 0;
	}
	av_sources_close(sources);
	if (more && !(atomic_load(&av_misuse_mode) & AV_MISUSE_JSON)) {
		char line[80];
		int n = snprintf(line, sizeof(line), "anyverbs[%d]: check: and %" PRIu64 " more\n",
				 (int)getpid(), more);

		(void)!write(STDERR_FILENO, line, (size_t)n);
	}
}

/* --- checks ---------------------------------------------------------------------- */

/* Has the program polled all completions of the CQ? NULL: yes. */
static bool is_polled(const struct ibv_cq *ibv)
{
	const struct av_cq_shared *cq =
		ibv ? av_container_of(ibv, struct av_cq, ibv)->shared : NULL;

	return !cq || atomic_load(&cq->head) == atomic_load(&cq->producer[av_cq_used(cq)].tail);
}

static uint64_t failed_completions(const struct av_qp_shared *q)
{
	const uint64_t *now = q->counters.req.event, *then = q->before.req.event;
	uint64_t sum = q->counters.rsp.event[AV_RSP_FLUSHED] - q->before.rsp.event[AV_RSP_FLUSHED] +
		       q->counters.rsp.event[AV_RSP_RECV_FAILED] -
		       q->before.rsp.event[AV_RSP_RECV_FAILED];

	for (int i = AV_REQ_FLUSHED; i < AV_REQ_N; i++)
		sum += now[i] - then[i];
	return sum;
}

/* Can the program know? A failure shows in completions, in events, and in a query of the state. */
static bool has_noticed(const struct av_qp *qp)
{
	return qp->ibv.state == IBV_QPS_ERR || qp->async_delivered ||
	       (failed_completions(qp->end.qp) && is_polled(qp->ibv.send_cq) &&
		is_polled(qp->ibv.recv_cq));
}

static void inspect_qp(struct av_misuse_object of, const struct av_qp *qp)
{
	struct av_qp_shared *q = qp->end.qp;

	if (qp->opened)
		return;
	add_misuse_finding(of, AV_MISUSE_RAN_DRY,
			   q->counters.rsp.event[AV_RSP_RNR] - q->before.rsp.event[AV_RSP_RNR]);
	add_misuse_finding(of, AV_MISUSE_BUFFER_CHANGED, av_send_sum_changes(&qp->end));
	add_misuse_finding(of, AV_MISUSE_IN_ERROR,
			   atomic_load(&q->state) == IBV_QPS_ERR && !has_noticed(qp));
}

static void inspect_cq(struct av_misuse_object of, const struct av_cq *cq)
{
	const struct av_cq_shared *shared = cq->shared;
	const struct av_cq_counters now = av_cq_counted(shared);
	uint64_t given = now.completions - shared->before.completions;

	add_misuse_finding(of, AV_MISUSE_OVERRUN, now.lost != shared->before.lost);
	/* Entries say nothing: a queue pair is destroyed first, and takes its own away. */
	add_misuse_finding(of, AV_MISUSE_NEVER_POLLED, atomic_load(&shared->head) == 0 ? given : 0);
}

/* Only regions of the program's own memory can lose it. */
static void inspect_mr(struct av_misuse_object of, const struct av_mr *mr)
{
	struct av_key *k = av_key_entry(of.ctx->seg, mr->ibv.lkey);

	if (k && mr->sort == AV_MR_PLAIN && atomic_load(&k->kind) == AV_KEY_REGION)
		add_misuse_finding(
			of, AV_MISUSE_UNMAPPED,
			!av_still_mapped(of.ctx->seg, k, (uintptr_t)mr->ibv.addr, mr->ibv.length));
}

void av_misuse_ends(struct av_misuse_object of, const void *object)
{
	if (!av_misuse_on() || of.ctx->forked)
		return;
	if (is_a(&of, "QP"))
		inspect_qp(of, object);
	else if (is_a(&of, "CQ"))
		inspect_cq(of, object);
	else
		inspect_mr(of, object);
}

static void look_at_qp(uint32_t id, void *object, void *arg)
{
	const struct av_qp *qp = object;
	const struct av_misuse_object of = AV_MISUSE_OF("QP", qp, qp->ibv.qp_num);

	inspect_qp(of, qp);
	add_misuse_finding(of, AV_MISUSE_UNACKNOWLEDGED,
			   qp->async_delivered - qp->ibv.events_completed);
	add_misuse_finding(of, AV_MISUSE_NOT_DESTROYED, 1);
}

static void look_at_cq(uint32_t id, void *object, void *arg)
{
	const struct av_cq *cq = object;
	const struct av_misuse_object of = AV_MISUSE_OF("CQ", cq, cq->ibv.handle);

	inspect_cq(of, cq);
	add_misuse_finding(of, AV_MISUSE_UNACKNOWLEDGED,
			   cq->comp_delivered - cq->ibv.comp_events_completed +
				   cq->async_delivered - cq->ibv.async_events_completed);
	add_misuse_finding(of, AV_MISUSE_NOT_DESTROYED, 1);
}

static void look_at_srq(uint32_t id, void *object, void *arg)
{
	const struct av_srq *srq = object;
	const struct av_misuse_object of = AV_MISUSE_OF("SRQ", srq, id);

	add_misuse_finding(of, AV_MISUSE_UNACKNOWLEDGED,
			   srq->async_delivered - srq->ibv.events_completed);
	add_misuse_finding(of, AV_MISUSE_NOT_DESTROYED, 1);
}

static void look_at_mr(uint32_t id, void *object, void *arg)
{
	const struct av_mr *mr = object;
	const struct av_misuse_object of = AV_MISUSE_OF("MR", mr, mr->ibv.lkey);

	inspect_mr(of, mr);
	add_misuse_finding(of, AV_MISUSE_NOT_DESTROYED, 1);
}

/* Of these kinds the report only says that they were not destroyed. */
#define LOOK_AT(name, kind, made_at)                                                  \
	static void look_at_##name(uint32_t id, void *object, void *arg)              \
	{                                                                             \
		add_misuse_finding((struct av_misuse_object){arg, kind, id, made_at}, \
				   AV_MISUSE_NOT_DESTROYED, 1);                       \
	}

LOOK_AT(mw, "MW", NULL)
LOOK_AT(dm, "DM", NULL)
LOOK_AT(ah, "AH", NULL)
LOOK_AT(channel, "completion channel", ((struct av_channel *)object)->made_at)
LOOK_AT(xrcd, "XRCD", NULL)
LOOK_AT(td, "TD", NULL)
LOOK_AT(pd, "PD", ((struct av_pd *)object)->made_at)

/* Inspects all objects, users before what they use. */
static void inspect_context_objects(struct av_context *ctx)
{
	av_table_each(&ctx->qps, look_at_qp, ctx);
	av_table_each(&ctx->srqs, look_at_srq, ctx);
	av_table_each(&ctx->cqs, look_at_cq, ctx);
	av_table_each(&ctx->channels.table, look_at_channel, ctx);
	av_table_each(&ctx->ahs.table, look_at_ah, ctx);
	av_table_each(&ctx->mws, look_at_mw, ctx);
	av_table_each(&ctx->mrs, look_at_mr, ctx);
	av_table_each(&ctx->dms, look_at_dm, ctx);
	av_table_each(&ctx->xrcds.table, look_at_xrcd, ctx);
	av_table_each(&ctx->pds.table, look_at_pd, ctx);
	av_table_each(&ctx->tds.table, look_at_td, ctx);
}

void av_misuse_context_ends(struct av_context *ctx)
{
	if (!ctx->forked)
		inspect_context_objects(ctx);
	report_findings(ctx);
}

/* Has librdmacm opened the device? It keeps it open, and the program cannot close it. */
static bool is_of_librdmacm(const struct av_context *ctx)
{
	Dl_info info;

	return ctx->made_at && dladdr(ctx->made_at, &info) && info.dli_fname &&
	       strstr(info.dli_fname, "/librdmacm.so");
}

void av_misuse_exit(struct av_context_list *contexts)
{
	struct av_context *ctx;

	SLIST_FOREACH(ctx, contexts, link) {
		if (ctx->forked)
			continue;
		inspect_context_objects(ctx);
		if (!is_of_librdmacm(ctx))
			add_misuse_finding((struct av_misuse_object){ctx, "context", ctx->seg->ref,
								     ctx->made_at},
					   AV_MISUSE_NOT_DESTROYED, 1);
		report_findings(ctx);
	}
	if (!atomic_load(&found_any) || exit_status ||
	    !(atomic_load(&av_misuse_mode) & AV_MISUSE_FAIL))
		return;
	fflush(NULL); /* what exit() would do after us */
	av_dir_abandon();
	_exit(FAIL_STATUS);
}
