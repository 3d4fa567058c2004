/* SPDX-License-Identifier: MIT */
#include "memory/region.h"

#include <unistd.h>

#include "base/real_calls.h"
#include "registry/tables.h"

#define WRITERS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

/* --- shared by both ways --------------------------------------------------------- */

static int check_request(const struct av_seg *seg, uint32_t access, const void *wanted)
{
	if (access & (IBV_ACCESS_ON_DEMAND | IBV_ACCESS_ZERO_BASED))
		return av_refuse(EINVAL, AV_CHECK_MR_ALLOCATED, access, 0);
	if ((uintptr_t)wanted % AV_PAGE_BYTES)
		return av_refuse(EINVAL, AV_CHECK_MR_ALLOCATED_AT, (uintptr_t)wanted,
				 AV_PAGE_BYTES);
	return av_region_check_rights(seg, access);
}

/* The key of a region on pages of a segment. Its addresses are the program's. */
static struct av_key key_on_pages(const struct av_allocated *memory, uint64_t length,
				  uint32_t access, bool no_rdma, uint8_t share)
{
	return (struct av_key){
		.kind = no_rdma ? AV_KEY_MAPPED : AV_KEY_PAGES,
		.access = access,
		.base = (uintptr_t)memory->map,
		.length = length,
		.addr = memory->at,
		.intact = memory->pages_owner,
		.share = share,
	};
}

/* Map pages of the segment that @fd is. Return: 0 or errno */
static int map_pages(struct av_allocated *out, void *wanted, int fd)
{
	out->map = av_map_file(wanted, out->bytes,
			       out->writable ? PROT_READ | PROT_WRITE : PROT_READ, fd, out->at);
	return out->map ? 0 : errno;
}

static int unmap_pages(struct av_allocated *out, int err)
{
	if (out->map)
		av_munmap(out->map, out->bytes);
	out->map = NULL;
	return err;
}

/* --- allocating ------------------------------------------------------------------ */

static uint32_t describe_pages(const struct av_page_policy *policy, uint64_t huge)
{
	uint32_t count = huge < AV_KEY_HUGE_MAX ? (uint32_t)huge : AV_KEY_HUGE_MAX;

	return count << AV_KEY_HUGE_SHIFT | (uint32_t)policy->type;
}

static int make_pages(struct av_seg *seg, const struct av_allocate_request *req,
		      enum av_pages_wish wish, struct av_allocated *out, struct av_key *what)
{
	struct av_page_block block;
	int ret = av_pages_alloc(seg, req->length, wish, &block);

	if (ret)
		return ret;
	*out = (struct av_allocated){.seg = seg,
				     .pages_owner = seg->ref,
				     .at = block.at,
				     .bytes = block.bytes,
				     .writable = true};
	ret = map_pages(out, req->wanted, av_own_fd(&seg->file));
	if (ret == 0 && req->share)
		ret = av_page_users_join(seg->ref, block.at);
	if (ret) {
		(void)unmap_pages(out, ret);
		av_pages_free(seg, block.at);
		return ret;
	}
	out->shared = req->share;
	*what = key_on_pages(out, req->length, req->access, req->no_rdma, req->share);
	what->intact |= (uint64_t)describe_pages(&req->policy, block.huge) << 32;
	return 0;
}

static int allocate_private_pages(struct av_seg *seg, const struct av_allocate_request *req,
				  bool huge, struct av_allocated *out, struct av_key *what)
{
	struct av_region_request region = {
		.length = req->length, .access = req->access, .private = true};
	int ret;

	*out = (struct av_allocated){
		.seg = seg,
		.writable = true,
		.bytes = av_round_up(req->length, huge ? AV_HUGE_PAGE_BYTES : AV_PAGE_BYTES)};
	out->map = av_map_private(req->wanted, out->bytes, huge);
	if (!out->map)
		return errno;
	region.addr = region.iova = (uintptr_t)out->map;
	ret = av_region_prepare(seg, &region, what);
	if (ret)
		return unmap_pages(out, ret);
	what->share = AV_KEY_PRIVATE | (huge ? AV_KEY_HUGETLB : 0);
	return 0;
}

/*
 * Pages of the segment first: peers can map them. Where the kernel gives no huge ones, private ones
 * may come from the system's pool. Memory that others map, or without a key, cannot be private.
 */
static int allocate_by_plan(struct av_seg *seg, const struct av_allocate_request *req,
			    const struct av_page_plan *plan, struct av_allocated *out,
			    struct av_key *what)
{
	bool never_private = req->share || req->no_rdma;
	int ret = ENOMEM;

	if (plan->pages && !plan->never)
		ret = make_pages(seg, req, plan->wish, out, what);
	if (ret == ENOMEM && plan->pages && !plan->never && plan->wish == AV_PAGES_HUGE &&
	    !never_private)
		ret = allocate_private_pages(seg, req, true, out, what);
	if (ret != ENOMEM || plan->or_fail)
		return ret;
	if (never_private)
		return make_pages(seg, req, AV_PAGES_SMALL, out, what);
	return allocate_private_pages(seg, req, false, out, what);
}

int av_allocated_make(struct av_seg *seg, const struct av_allocate_request *req,
		      struct av_allocated *out, struct av_key *what)
{
	struct av_page_plan plan = av_page_plan(&req->policy);
	int ret = check_request(seg, req->access, req->wanted);

	out->map = NULL;
	if (ret)
		return ret;
	if (req->length == 0 || req->length > SIZE_MAX - AV_HUGE_PAGE_BYTES)
		return av_refuse(EINVAL, AV_CHECK_MR_LENGTH, req->length,
				 SIZE_MAX - AV_HUGE_PAGE_BYTES);
	(void)av_copy_init(); /* without it, copies take the slow path */
	return allocate_by_plan(seg, req, &plan, out, what);
}

/* --- shared regions -------------------------------------------------------------- */

static int refuse_handle(uint32_t handle)
{
	return av_refuse(EINVAL, AV_CHECK_MR_HANDLE, handle, 0);
}

/* Copy the fields of a shared region, if the handle names one now. @pages_owner is mapped. */
static int lookup_shared_region(struct av_seg *pages_owner, uint32_t handle, struct av_key *copy)
{
	struct av_key *k = av_key_entry(pages_owner, handle << 8);
	bool found;

	/* Checked before locking, because a window's lock may be held for long. */
	if (!k || !atomic_load(&k->held) ||
	    av_peer_lock(pages_owner, &k->lock, AV_RANK_KEY) == AV_LOCK_BUSY)
		return refuse_handle(handle);
	found = atomic_load(&k->held) && (k->kind == AV_KEY_PAGES || k->kind == AV_KEY_MAPPED) &&
		(k->share & AV_SHARED);
	if (found)
		*copy = (struct av_key){.share = k->share,
					.addr = k->addr,
					.length = k->length,
					.intact = atomic_load(&k->intact)};
	av_lock_release(&k->lock);
	return found ? 0 : refuse_handle(handle);
}

static int check_attach_rights(const struct av_attach_request *req, const struct av_key *original)
{
	if (!(original->share & AV_SHARE_READ))
		return EACCES;
	return (req->write || (req->access & WRITERS)) && !(original->share & AV_SHARE_WRITE)
		       ? EACCES
		       : 0;
}

/* Check what a peer's table says before believing it. */
static bool sound(const struct av_key *k)
{
	return k->addr % AV_PAGE_BYTES == 0 && k->length &&
	       av_range_within(k->addr, k->length, AV_PAGE_BYTES, AV_HEAP_END);
}

/* Once we are a user, the pages cannot go. Then look again whether the region still exists. */
static int acquire_shared_region(struct av_seg *pages_owner, uint32_t handle,
				 const struct av_key *original)
{
	struct av_key again;
	int ret = av_page_users_join((uint32_t)original->intact, original->addr);

	if (ret)
		return ret;
	if (lookup_shared_region(pages_owner, handle, &again) == 0 &&
	    again.addr == original->addr && again.length == original->length &&
	    again.intact == original->intact)
		return 0;
	(void)av_page_users_leave((uint32_t)original->intact, original->addr, NULL, NULL);
	return refuse_handle(handle);
}

static int attach_shared_pages(struct av_seg *seg, struct av_seg *pages_owner,
			       const struct av_attach_request *req, const struct av_key *original,
			       struct av_allocated *out)
{
	int fd AV_CLOSED = av_seg_memory(pages_owner), ret;

	*out = (struct av_allocated){.seg = seg,
				     .pages_owner = pages_owner->ref,
				     .at = original->addr,
				     .bytes = av_round_up(original->length, AV_PAGE_BYTES),
				     .writable = req->write || (req->access & WRITERS),
				     .shared = true};
	if (fd < 0)
		return refuse_handle(req->handle); /* its process has just ended */
	ret = map_pages(out, req->wanted, fd);
	if (ret == 0 && pages_owner != seg)
		ret = av_pages_owner_hold(seg, pages_owner);
	return ret ? unmap_pages(out, ret) : 0;
}

/* The segment that a handle leads to, with a reference. */
static struct av_seg *pages_owner_of(uint32_t handle)
{
	uint32_t wanted = handle >> AV_HANDLE_INDEX_BITS, slot = wanted;
	uint32_t ref = av_dir_context_at(&slot);

	return ref && AV_REF_SLOT(ref) == wanted ? av_seg_get(ref) : NULL;
}

static bool same_device(const struct av_seg *a, const struct av_seg *b)
{
	return strncmp(a->head->device, b->head->device, sizeof(a->head->device)) == 0;
}

static int attach_to(struct av_seg *seg, struct av_seg *pages_owner,
		     const struct av_attach_request *req, struct av_allocated *out,
		     struct av_key *what)
{
	uint32_t index = req->handle & ((1u << AV_HANDLE_INDEX_BITS) - 1);
	struct av_key original;
	int ret = lookup_shared_region(pages_owner, index, &original);

	if (ret == 0 && ((uint32_t)original.intact != pages_owner->ref || !sound(&original)))
		ret = refuse_handle(req->handle);
	if (ret == 0)
		ret = check_attach_rights(req, &original);
	if (ret == 0)
		ret = acquire_shared_region(pages_owner, index, &original);
	if (ret)
		return ret;
	ret = attach_shared_pages(seg, pages_owner, req, &original, out);
	if (ret) {
		(void)av_page_users_leave(pages_owner->ref, original.addr, NULL, NULL);
		return ret;
	}
	*what = key_on_pages(out, original.length, req->access, req->no_rdma, AV_SHARE_SECOND);
	what->intact = original.intact;
	return 0;
}

int av_allocated_attach(struct av_seg *seg, const struct av_attach_request *req,
			struct av_allocated *out, struct av_key *what)
{
	int ret = check_request(seg, req->access, req->wanted);
	struct av_seg *pages_owner;

	out->map = NULL;
	if (ret)
		return ret;
	pages_owner = pages_owner_of(req->handle);
	if (!pages_owner)
		return refuse_handle(req->handle);
	(void)av_copy_init();
	/* A dead owner may not be swept yet. */
	ret = av_seg_alive_now(pages_owner) && same_device(seg, pages_owner)
		      ? attach_to(seg, pages_owner, req, out, what)
		      : refuse_handle(req->handle);
	av_seg_put(pages_owner);
	return ret;
}

/* --- freeing --------------------------------------------------------------------- */

/* The owner frees the range; another process can only remove its pages. */
static void free_shared_pages(void *arg)
{
	const struct av_allocated *memory = arg;
	uint8_t *base;

	if (memory->pages_owner == memory->seg->ref) {
		av_pages_free(memory->seg, memory->at);
		return;
	}
	base = av_pages_owner_base(memory->seg, memory->pages_owner);
	if (base)
		(void)!av_madvise(base + memory->at, memory->bytes, MADV_REMOVE);
}

static void release_allocated_pages(struct av_allocated *memory)
{
	bool own = memory->pages_owner == memory->seg->ref;

	if (!memory->shared)
		av_deferred_free(memory->seg, memory->at, memory->bytes);
	else if (!av_page_users_leave(memory->pages_owner, memory->at, free_shared_pages, memory) &&
		 own)
		av_pages_defer(memory->seg, memory->at);
	if (!own)
		av_pages_owner_drop(memory->seg, memory->pages_owner);
}

void av_allocated_end(struct av_allocated *memory, bool inherited)
{
	if (!memory->map)
		return;
	/* The real munmap(): the program knows the mapping, its registration cache must notice. */
	munmap(memory->map, memory->bytes);
	memory->map = NULL;
	if (memory->pages_owner && !inherited)
		release_allocated_pages(memory);
}

int av_allocated_check_access(const struct av_allocated *memory, uint32_t access)
{
	int ret = check_request(memory->seg, access, memory->map);

	return ret == 0 && (access & WRITERS) && !memory->writable ? EACCES : ret;
}
