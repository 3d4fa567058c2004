/* SPDX-License-Identifier: MIT */
#include "memory/why.h"

#include "base/checked.h"
#include "base/newer_verbs.h"
#include "memory/key.h"
#include "memory/region_count.h"

#define CHANGES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

/* The fields of a key to examine. The key may be changing meanwhile. */
struct look {
	bool there; /* the index has been used */
	bool given; /* the key was given out */
	uint32_t key, pd, access, qpn;
	uint8_t kind, window_type;
	uint64_t base, length;
};

AV_RACY static struct look look_at(const struct av_key *k)
{
	struct look l = {0};

	if (!k || k->kind == AV_KEY_NONE)
		return l;
	l.there = true;
	l.key = atomic_load(&k->key);
	l.kind = k->kind;
	l.pd = k->pd;
	l.access = k->access;
	l.qpn = k->kind == AV_KEY_WINDOW ? k->qpn : 0;
	l.window_type = k->window_type;
	l.base = k->base;
	l.length = k->length;
	return l;
}

static void note_region(struct av_flight_record *r, const struct av_seg *seg, const struct look *l)
{
	r->has |= AV_HAS_REGION | (l->qpn ? AV_HAS_REGION_QP : 0);
	r->region_kind = l->kind;
	r->region_access = l->access;
	r->region_pd = l->pd;
	r->region_qp = l->qpn;
	r->region_address = l->base;
	r->region_length = l->length;
	r->region_pid = seg->head->pid;
}

static void note_access(struct av_flight_record *r, const struct av_mem_request *req)
{
	r->has |= AV_HAS_ACCESS;
	r->key = req->key;
	r->remote = req->remote;
	r->address = req->addr;
	r->length = req->length;
	r->access = req->access;
	r->pd = req->pd;
}

static void say(struct av_flight_record *r, enum av_check check, uint64_t wanted, uint64_t limit)
{
	r->check = (uint16_t)check;
	r->wanted = wanted;
	r->limit = limit;
}

static void say_dead(struct av_flight_record *r, const struct look *l)
{
	if (!l->given)
		say(r, r->remote ? AV_CHECK_KEY_UNKNOWN : AV_CHECK_LKEY_UNKNOWN, 0, 0);
	else if (l->kind == AV_KEY_WINDOW && l->key == 0)
		say(r, AV_CHECK_KEY_UNBOUND, 0, 0);
	else
		say(r, AV_CHECK_KEY_DEAD, 0, l->key);
}

/* How far the range extends beyond the region, and on which side. */
static void say_range(struct av_flight_record *r, const struct look *l, uint64_t addr,
		      uint64_t length, enum av_check before, enum av_check behind)
{
	if (addr < l->base)
		say(r, before, l->base - addr, l->length);
	else
		say(r, behind, addr - l->base + length - l->length, l->length);
}

/* Repeats the checks in their order. Return: false if the key itself is in order. */
static bool say_key(struct av_flight_record *r, const struct look *l,
		    const struct av_mem_request *req)
{
	if (!l->there || req->key == 0 || l->key != req->key)
		say_dead(r, l);
	else if (!req->remote && l->kind == AV_KEY_WINDOW)
		say(r, AV_CHECK_KEY_IS_WINDOW, 0, 0);
	else if (req->remote && l->kind == AV_KEY_NULL)
		say(r, AV_CHECK_KEY_IS_NULL, 0, 0);
	else if (l->pd != req->pd)
		say(r, AV_CHECK_KEY_PD, req->pd, l->pd);
	else if (l->qpn && l->qpn != req->qpn)
		say(r, AV_CHECK_KEY_WINDOW_QP, req->qpn, l->qpn);
	else if ((l->access & req->access) != req->access)
		say(r, AV_CHECK_KEY_RIGHTS, req->access, l->access);
	else if (l->kind != AV_KEY_NULL && !req->whole &&
		 !av_range_within(req->addr, req->length, l->base, l->length))
		say_range(r, l, req->addr, req->length, AV_CHECK_KEY_BEFORE, AV_CHECK_KEY_BEHIND);
	else
		return false;
	return true;
}

/* Return: true if the key itself is at fault. */
static bool examine(struct av_seg *seg, const struct av_mem_request *req, enum av_mem_fault found)
{
	struct av_flight_record *r = av_diag_note(AV_CHECK_NONE, 0, 0);
	struct look l;

	note_access(r, req);
	seg = av_mem_key_owner(seg, req->key);
	l = look_at(seg ? av_key_entry(seg, req->key) : NULL);
	l.given = seg && av_key_was_given(seg, req->key);
	if (l.there && l.key == req->key)
		note_region(r, seg, &l);
	if (say_key(r, &l, req))
		return true;
	if (l.kind == AV_KEY_UMR && found != AV_MEM_OK)
		say(r, AV_CHECK_KEY_PIECE, 0, 0);
	else if (found == AV_MEM_GONE)
		say(r, AV_CHECK_KEY_UNMAPPED, 0, 0);
	else
		say(r, AV_CHECK_MEMORY_FAULT, 0, 0);
	return l.kind == AV_KEY_UMR && found != AV_MEM_OK;
}

/* Count a refusal at the key's region, if it has one. */
static void count_refusal(struct av_seg *seg, uint32_t key)
{
	const struct av_key *k;

	seg = av_mem_key_owner(seg, key);
	k = seg ? av_key_entry(seg, key) : NULL;
	if (k && key && atomic_load(&k->key) == key)
		av_region_count(seg, key, AV_MR_REFUSED, 1);
}

void av_mem_why(struct av_seg *seg, const struct av_mem_request *req, enum av_mem_fault found)
{
	(void)examine(seg, req, found);
	count_refusal(seg, req->key);
}

void av_mem_why_fault(struct av_seg *seg, const struct av_mem_request *req)
{
	av_mem_why(seg, req, AV_MEM_OK);
}

/* Is this element's memory gone? Its key is in order. */
static bool is_gone(struct av_seg *seg, const struct av_mem_request *req)
{
	struct av_span span;
	enum av_mem_fault now = av_mem_get(seg, req, &span);

	if (now == AV_MEM_OK)
		av_pin_end(span.pin);
	return now == AV_MEM_GONE;
}

void av_mem_why_list(struct av_seg *seg, uint32_t pd, uint32_t access, const struct ibv_sge *sge,
		     uint32_t count, uint64_t bytes, enum av_mem_fault found)
{
	struct av_mem_request req = {.pd = pd, .access = access};

	if (count > AV_MAX_SGE) /* the count in a peer's segment has changed */
		count = 0;
	/* Examine each key instead of translating again, which would count unknown keys twice. */
	for (uint32_t i = 0; i < count && bytes > 0; bytes -= req.length, i++) {
		uint32_t length = __atomic_load_n(&sge[i].length, __ATOMIC_RELAXED);

		req.key = sge[i].lkey;
		req.addr = sge[i].addr;
		req.length = length < bytes ? length : bytes;
		if (req.length == 0)
			continue;
		if (examine(seg, &req, found) || found == AV_MEM_OK ||
		    (found == AV_MEM_GONE && is_gone(seg, &req))) {
			count_refusal(seg, req.key);
			return;
		}
	}
	if (bytes > 0)
		av_diag_note(AV_CHECK_KEY_LIST, bytes, 0);
}

/* --- windows --------------------------------------------------------------------- */

static struct av_flight_record *begin_window(uint32_t key, const struct av_window_bind *bind)
{
	struct av_flight_record *r = av_diag_note(AV_CHECK_NONE, 0, 0);
	struct av_mem_request req = {.key = key,
				     .pd = bind->pd,
				     .addr = bind->addr,
				     .length = bind->length,
				     .access = bind->access};

	note_access(r, &req);
	return r;
}

static bool say_window(struct av_flight_record *r, const struct look *w,
		       const struct av_window_bind *bind)
{
	const uint32_t known = IBV_ACCESS_LOCAL_WRITE | CHANGES | IBV_ACCESS_REMOTE_READ |
			       IBV_ACCESS_ZERO_BASED | AV_ACCESS_FLUSH_GLOBAL;
	bool type_1 = w->window_type == IBV_MW_TYPE_1;

	if (!w->there || w->kind != AV_KEY_WINDOW || bind->rkey == 0 ||
	    AV_KEY_INDEX(bind->rkey) != AV_KEY_INDEX(bind->window))
		say(r, AV_CHECK_BIND_WINDOW, bind->rkey, bind->window);
	else if (w->pd != bind->pd)
		say(r, AV_CHECK_BIND_PD, bind->pd, w->pd);
	else if (bind->access & ~known)
		say(r, AV_CHECK_BIND_FLAGS, bind->access, known);
	else if (type_1 &&
		 ((bind->access & IBV_ACCESS_ZERO_BASED) || (!bind->region && bind->length)))
		say(r, AV_CHECK_BIND_TYPE, bind->access, bind->length);
	else if (!type_1 && (!bind->region || bind->length == 0))
		say(r, AV_CHECK_BIND_LENGTH, bind->length, bind->region);
	else if (!type_1 && w->key)
		say(r, AV_CHECK_BIND_BOUND, bind->rkey, w->key);
	else
		return false;
	return true;
}

static void say_region(struct av_flight_record *r, const struct look *l,
		       const struct av_window_bind *bind)
{
	bool bindable =
		l->kind == AV_KEY_REGION || l->kind == AV_KEY_ODP || l->kind == AV_KEY_PAGES;

	if (!l->there || l->key != bind->region || !bindable)
		say(r, AV_CHECK_BIND_REGION, bind->region, l->key);
	else if (l->pd != bind->pd)
		say(r, AV_CHECK_BIND_REGION_PD, bind->pd, l->pd);
	else if (!(l->access & IBV_ACCESS_MW_BIND) || (l->access & IBV_ACCESS_ZERO_BASED))
		say(r, AV_CHECK_BIND_REGION_FLAG, IBV_ACCESS_MW_BIND, l->access);
	else if ((bind->access & CHANGES) && !(l->access & IBV_ACCESS_LOCAL_WRITE))
		say(r, AV_CHECK_BIND_RIGHTS, bind->access, l->access);
	else
		say_range(r, l, bind->addr, bind->length, AV_CHECK_BIND_RANGE, AV_CHECK_BIND_RANGE);
}

void av_window_why(struct av_seg *seg, const struct av_window_bind *bind)
{
	struct look w = look_at(av_key_entry(seg, bind->window));
	struct look region = look_at(bind->region ? av_key_entry(seg, bind->region) : NULL);
	struct av_flight_record *r = begin_window(bind->region, bind);

	note_region(r, seg, &w);
	if (say_window(r, &w, bind))
		return;
	note_region(r, seg, &region);
	say_region(r, &region, bind);
}

void av_invalidate_why(struct av_seg *seg, const struct av_window_bind *bind,
		       enum av_invalidate found)
{
	struct look w = look_at(bind->rkey ? av_key_entry(seg, bind->rkey) : NULL);
	struct av_flight_record *r = begin_window(bind->rkey, bind);

	if (w.there)
		note_region(r, seg, &w);
	if (found == AV_INVALIDATE_NO_WINDOW)
		say(r, AV_CHECK_INVALIDATE_WINDOW, bind->rkey, 0);
	else
		say(r, AV_CHECK_INVALIDATE_UNBOUND, bind->rkey, w.key);
}
