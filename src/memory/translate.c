/* SPDX-License-Identifier: MIT */
/* The checks behind the one door, in the order of the specification: key, protection domain, access, range. */
#include "memory/translate.h"

#include "base/checked.h"
#include "memory/key.h"

static enum av_mem_fault check(const struct av_key *k, const struct av_mem_request *req)
{
	if (k->pd != req->pd)
		return AV_MEM_PD;
	if ((k->access & req->access) != req->access)
		return AV_MEM_ACCESS;
	if (!av_range_within(req->addr, req->length, k->base, k->length))
		return AV_MEM_RANGE;
	return AV_MEM_OK;
}

enum av_mem_fault av_mem_get(struct av_seg *seg, const struct av_mem_request *req, struct av_span *span)
{
	struct av_key *k = av_key_entry(seg, req->key);
	enum av_mem_fault fault = AV_MEM_NO_KEY;
	struct av_hazard *hazard;

	if (!k || req->key == 0)
		return AV_MEM_NO_KEY;
	hazard = av_hazard_begin(seg, req->key);
	if (atomic_load_explicit(&k->key, memory_order_acquire) == req->key)
		fault = check(k, req);
	if (fault != AV_MEM_OK) {
		av_hazard_end(hazard);
		return fault;
	}
	span->addr = k->addr + (req->addr - k->base);
	span->local = seg->own ? (void *)(uintptr_t)span->addr : NULL;
	span->length = req->length;
	span->seg = seg;
	span->hazard = hazard;
	return AV_MEM_OK;
}

enum av_mem_fault av_mem_get_list(struct av_seg *seg, uint32_t pd, uint32_t access, const struct ibv_sge *sge,
				  uint32_t count, uint64_t bytes, struct av_spans *spans)
{
	enum av_mem_fault fault = AV_MEM_OK;

	spans->count = 0;
	spans->bytes = bytes;
	for (uint32_t i = 0; i < count && bytes > 0; i++) {
		struct av_mem_request req = {
			.key = sge[i].lkey,
			.pd = pd,
			.access = access,
			.addr = sge[i].addr,
			.length = sge[i].length < bytes ? sge[i].length : bytes,
		};

		if (req.length == 0)
			continue;
		fault = av_mem_get(seg, &req, &spans->at[spans->count]);
		if (fault != AV_MEM_OK) {
			av_mem_put_list(spans);
			return fault;
		}
		spans->count++;
		bytes -= req.length;
	}
	if (bytes > 0) { /* a list in a peer's segment that contradicts itself */
		av_mem_put_list(spans);
		return AV_MEM_RANGE;
	}
	return AV_MEM_OK;
}

void av_mem_put_list(struct av_spans *spans)
{
	for (uint32_t i = 0; i < spans->count; i++)
		av_mem_put(&spans->at[i]);
	spans->count = 0;
}

void av_spans_skip(struct av_spans *spans, uint64_t bytes)
{
	uint32_t gone = 0;

	spans->bytes -= bytes;
	while (gone < spans->count && bytes >= spans->at[gone].length)
		bytes -= spans->at[gone++].length;
	spans->count -= gone;
	for (uint32_t i = 0; i < spans->count; i++)
		spans->at[i] = spans->at[i + gone];
	if (spans->count == 0)
		return;
	if (spans->at[0].local)
		spans->at[0].local = (uint8_t *)spans->at[0].local + bytes;
	spans->at[0].addr += bytes;
	spans->at[0].length -= bytes;
}
