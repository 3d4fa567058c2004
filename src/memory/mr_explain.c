/* SPDX-License-Identifier: MIT */
#include "memory/region.h"

/* What is said of an entry, which may be changing. AV_KEY_NONE: its index was never used. */
AV_RACY static struct av_key snapshot_key_fields(const struct av_key *k)
{
	if (!k || k->kind == AV_KEY_NONE)
		return (struct av_key){.kind = AV_KEY_NONE};
	return (struct av_key){
		.key = atomic_load(&k->key),
		.kind = k->kind,
		.pd = k->pd,
		.access = k->access,
		.qpn = k->kind == AV_KEY_WINDOW ? k->qpn : 0,
		.base = k->base,
		.length = k->length,
	};
}

static void note_region(struct av_flight_record *r, const struct av_seg *seg,
			const struct av_key *l)
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

/* How far the range extends beyond the region, on whichever side. */
static struct av_flight_record *note_range(enum av_check found, const struct av_key *l,
					   uint64_t addr, uint64_t length)
{
	return av_diag_note(found,
			    addr < l->base ? l->base - addr : addr - l->base + length - l->length,
			    l->length);
}

static struct av_flight_record *note_key(enum av_check found, const struct av_key *l,
					 const struct av_mem_request *req)
{
	switch (found) {
	case AV_CHECK_KEY_DEAD:
		return av_diag_note(found, 0, l->key);
	case AV_CHECK_KEY_PD:
		return av_diag_note(found, req->pd, l->pd);
	case AV_CHECK_KEY_WINDOW_QP:
		return av_diag_note(found, req->qpn, l->qpn);
	case AV_CHECK_KEY_RIGHTS:
		return av_diag_note(found, req->access, l->access);
	case AV_CHECK_KEY_BEFORE:
	case AV_CHECK_KEY_BEHIND:
		return note_range(found, l, req->addr, req->length);
	default:
		return av_diag_note(found, 0, 0);
	}
}

enum av_fault av_mr_explain(struct av_seg *seg, const struct av_mem_request *req,
			    enum av_check found, enum av_fault refused)
{
	struct av_seg *owner = av_mem_key_owner(seg, req->key);
	struct av_key l = snapshot_key_fields(owner ? av_key_entry(owner, req->key) : NULL);
	bool is_that = l.kind && l.key == req->key;
	struct av_flight_record *r;

	if (found >= AV_CHECK_N)
		return av_fault_of(found, refused);
	r = note_key(found, &l, req);
	note_access(r, req);
	if (is_that)
		note_region(r, owner, &l);
	if (is_that && req->key)
		av_region_count(owner, req->key, AV_MR_REFUSED, 1);
	return refused;
}

enum av_fault av_mr_explain_element(struct av_seg *seg, uint32_t pd, uint32_t access,
				    const struct ibv_sge *sge, uint64_t left, enum av_check found,
				    enum av_fault refused)
{
	struct av_mem_request req = {.pd = pd, .access = access, .length = left};

	if (found == AV_CHECK_KEY_LIST) {
		av_diag_note(found, left, 0);
		return refused;
	}
	req.key = sge->lkey;
	req.addr = sge->addr;
	if (sge->length < left)
		req.length = sge->length;
	return av_mr_explain(seg, &req, found, refused);
}

/* --- windows --------------------------------------------------------------------- */

static struct av_flight_record *note_bind(enum av_check found, const struct av_window_bind *bind,
					  const struct av_key *w, const struct av_key *region)
{
	const struct {
		enum av_check check;
		uint64_t wanted, limit;
	} rows[] = {
		{AV_CHECK_BIND_WINDOW, bind->rkey, bind->window},
		{AV_CHECK_BIND_PD, bind->pd, w->pd},
		{AV_CHECK_BIND_FLAGS, bind->access, AV_WINDOW_ACCESS},
		{AV_CHECK_BIND_TYPE, bind->access, bind->length},
		{AV_CHECK_BIND_LENGTH, bind->length, bind->region},
		{AV_CHECK_BIND_REGION, bind->region, region->key},
		{AV_CHECK_BIND_REGION_PD, bind->pd, region->pd},
		{AV_CHECK_BIND_REGION_FLAG, IBV_ACCESS_MW_BIND, region->access},
		{AV_CHECK_BIND_RIGHTS, bind->access, region->access},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++)
		if (rows[i].check == found)
			return av_diag_note(found, rows[i].wanted, rows[i].limit);
	return found == AV_CHECK_BIND_RANGE ? note_range(found, region, bind->addr, bind->length)
					    : av_diag_note(found, bind->rkey, w->key);
}

/* @key: as which the window, or its region, is named */
static void note_window(struct av_flight_record *r, uint32_t key, const struct av_window_bind *bind)
{
	note_access(r, &(struct av_mem_request){.key = key,
						.pd = bind->pd,
						.addr = bind->addr,
						.length = bind->length,
						.access = bind->access});
}

void av_window_explain(struct av_seg *seg, const struct av_window_bind *bind, enum av_check found)
{
	struct av_key w = snapshot_key_fields(av_key_entry(seg, bind->window));
	struct av_key region =
		snapshot_key_fields(bind->region ? av_key_entry(seg, bind->region) : NULL);
	bool of_region = found >= AV_CHECK_BIND_REGION && found <= AV_CHECK_BIND_RANGE;
	struct av_flight_record *r = note_bind(found, bind, &w, &region);

	note_window(r, bind->region, bind);
	note_region(r, seg, of_region ? &region : &w);
}

void av_invalidate_explain(struct av_seg *seg, const struct av_window_bind *bind,
			   enum av_check found)
{
	struct av_key w = snapshot_key_fields(bind->rkey ? av_key_entry(seg, bind->rkey) : NULL);
	struct av_flight_record *r =
		av_diag_note(found, bind->rkey, found == AV_CHECK_INVALIDATE_UNBOUND ? w.key : 0);

	note_window(r, bind->rkey, bind);
	if (w.kind)
		note_region(r, seg, &w);
}
