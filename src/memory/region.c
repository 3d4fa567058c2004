/* SPDX-License-Identifier: MIT */
#include "memory/region.h"

#include "memory/odp.h"

const char *av_region_memory_name(enum av_region_memory memory)
{
	static const char *const names[AV_REGION_MEMORY_N] = {
		[AV_REGION_PLAIN] = "plain",	     [AV_REGION_SHARED] = "shared",
		[AV_REGION_ON_DEMAND] = "on-demand", [AV_REGION_DEVICE] = "device",
		[AV_REGION_NULL] = "null",	     [AV_REGION_PAGES] = "pages",
		[AV_REGION_PRIVATE] = "private",     [AV_REGION_MAPPED] = "mapped",
		[AV_REGION_EARLY] = "early",
	};

	return names[memory];
}

/* The part of plain memory that peers map, in bytes. */
static uint64_t count_shared_bytes(const struct av_seg *seg, const struct av_key *k)
{
	const struct av_heap_part *part =
		k->heap ? av_seg_at(seg, (uint64_t)k->heap << AV_HEAP_PART_SHIFT, sizeof(*part))
			: NULL;
	uint64_t first, end;

	if (!part || !atomic_load(&part->at))
		return 0;
	first = part->addr > k->addr ? part->addr : k->addr;
	end = part->addr + part->bytes;
	end = end < k->addr + k->length ? end : k->addr + k->length;
	return end > first ? end - first : 0;
}

/* AV_REGION_MEMORY_N: it is no region. */
static enum av_region_memory classify_region_memory(const struct av_seg *seg,
						    const struct av_key *k)
{
	enum av_region_memory memory = av_kind_of(k->kind)->memory;

	if (memory != AV_REGION_PLAIN)
		return memory;
	if (k->share & AV_KEY_PRIVATE)
		return AV_REGION_PRIVATE;
	if (count_shared_bytes(seg, k))
		return AV_REGION_SHARED;
	return k->share & AV_KEY_EARLY ? AV_REGION_EARLY : AV_REGION_PLAIN;
}

static void fill_pages(const struct av_key *k, struct av_region_info *info)
{
	uint64_t what = atomic_load(&k->intact),
		 bytes = k->length ? av_round_up(k->length, AV_PAGE_BYTES) : 0;
	uint32_t pages = (uint32_t)(what >> 32);

	if (info->memory == AV_REGION_PRIVATE && (k->share & AV_KEY_HUGETLB)) {
		info->huge = (bytes + AV_HUGE_PAGE_BYTES - 1) / AV_HUGE_PAGE_BYTES;
		info->type = AV_ALLOC_HUGE;
		return;
	}
	if (info->memory == AV_REGION_PRIVATE) {
		info->small = bytes / AV_PAGE_BYTES;
		info->type = AV_ALLOC_ANON;
		return;
	}
	info->type = pages & ((1u << AV_KEY_HUGE_SHIFT) - 1);
	info->huge = pages >> AV_KEY_HUGE_SHIFT;
	if (bytes > info->huge * AV_HUGE_PAGE_BYTES)
		info->small = (bytes - info->huge * AV_HUGE_PAGE_BYTES) / AV_PAGE_BYTES;
	info->shared = k->share & (AV_SHARED | AV_SHARE_SECOND);
	info->writable = k->share & AV_SHARE_WRITE;
	info->second = k->share & AV_SHARE_SECOND;
}

static void fill_counted(const struct av_seg *seg, const struct av_key *k,
			 struct av_region_info *info)
{
	av_region_counted(seg, info->key, info->counted);
	info->counted[AV_MR_WINDOWS] = av_window_count(k);
	if (info->memory == AV_REGION_SHARED)
		info->counted[AV_MR_SHARED_BYTES] = count_shared_bytes(seg, k);
	if (info->memory == AV_REGION_ON_DEMAND)
		info->counted[AV_MR_VALID_PAGES] = av_odp_valid(seg, k->addr, k->length, false);
}

/* Return: false if the entry is not a region, or changed meanwhile. */
static bool read_region_info(const struct av_seg *seg, const struct av_key *k,
			     struct av_region_info *info)
{
	uint32_t key = atomic_load(&k->key);

	*info = (struct av_region_info){
		.pid = seg->head->pid,
		.context = seg->head->ref,
		.pd = k->pd,
		.key = key,
		.addr = k->base,
		.length = k->length,
	};
	info->memory = classify_region_memory(seg, k);
	if (key == 0 || info->memory == AV_REGION_MEMORY_N)
		return false;
	if (info->memory >= AV_REGION_PAGES)
		fill_pages(k, info);
	fill_counted(seg, k, info);
	return atomic_load(&k->key) == key;
}

void av_region_report_of(const struct av_seg *seg,
			 void (*visit)(const struct av_region_info *info, void *arg), void *arg)
{
	for (uint32_t index = 0; index < AV_SLAB_CHUNKS * AV_KEY_CHUNK; index++) {
		const struct av_key *k = av_key_entry(seg, index << 8);
		struct av_region_info info;

		if (!k)
			index += AV_KEY_CHUNK - 1; /* skip the whole chunk */
		else if (read_region_info(seg, k, &info))
			visit(&info, arg);
	}
}

struct each {
	void (*visit)(const struct av_region_info *info, void *arg);
	void *arg;
};

static void regions_of(const struct av_seg *seg, void *arg)
{
	const struct each *each = arg;

	av_odp_settle_to_read(seg);
	av_region_report_of(seg, each->visit, each->arg);
}

void av_region_report(const char *device,
		      void (*visit)(const struct av_region_info *info, void *arg), void *arg)
{
	av_seg_view_each(device, regions_of, &(struct each){visit, arg});
}

/* Above this size, a look at the list of mappings costs little in comparison. */
#define LOOK_FIRST     (16u << 20)
#define TOUCH_PAGES    2 /* two, for an unaligned page */
#define REMOTE_CHANGES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define WRITERS	       (IBV_ACCESS_LOCAL_WRITE | REMOTE_CHANGES | IBV_ACCESS_MW_BIND)
#define KNOWN                                                                                      \
	(IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE | REMOTE_CHANGES | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB |                         \
	 AV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_OPTIONAL_RANGE)

static int refuse_rights(uint32_t access)
{
	int err = av_refuse(EINVAL, AV_CHECK_MR_NEEDS_LOCAL, access, IBV_ACCESS_LOCAL_WRITE);

	av_diag_pending()->access = access;
	return err;
}

static int refuse_range(int err, const struct av_region_request *req)
{
	struct av_flight_record *r;

	av_refuse(err, AV_CHECK_MR_WRAPS, req->addr, req->length);
	r = av_diag_pending();
	r->address = req->addr;
	r->length = req->length;
	return err;
}

int av_region_check_access(uint32_t access)
{
	if ((access & REMOTE_CHANGES) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return refuse_rights(access);
	if (access & AV_ACCESS_FLUSH_PERSISTENT) /* no device here makes memory persistent */
		return av_refuse(EOPNOTSUPP, AV_CHECK_MR_PERSISTENT, access, 0);
	if (access & ~(uint32_t)KNOWN)
		return av_refuse(EINVAL, AV_CHECK_MR_FLAGS, access, (uint32_t)KNOWN);
	return 0;
}

int av_region_check_rights(const struct av_seg *seg, uint32_t access)
{
	if ((access & AV_ACCESS_TUNNELED) &&
	    !(av_switch_on(seg, AV_SWITCH_TUNNELED_ATOMIC) && (access & IBV_ACCESS_LOCAL_WRITE)))
		return av_refuse(EINVAL, AV_CHECK_MR_TUNNELED, access, 0);
	return av_region_check_access(access & ~AV_ACCESS_TUNNELED);
}

static int check_range(const struct av_region_request *req, uint64_t page)
{
	if (av_range_wraps(req->addr, req->length) || av_range_wraps(req->iova, req->length))
		return refuse_range(EINVAL, req);
	if (req->length &&
	    req->addr + (req->length - 1) > UINT64_MAX - page) /* rounding up to pages would wrap */
		return refuse_range(EINVAL, req);
	if ((req->addr ^ req->iova) & (page - 1))
		return av_refuse(EINVAL, AV_CHECK_MR_IOVA, req->addr & (page - 1),
				 req->iova & (page - 1));
	return 0;
}

/* Faster than a system call for a few pages. Return: false: ask the kernel, which says why. */
static bool touch(uint64_t addr, uint64_t length, bool writable, uint64_t page)
{
	uint64_t last = addr + (length - 1);

	if (last - (addr & ~(page - 1)) >= TOUCH_PAGES * page)
		return false;
	for (uint64_t at = addr; at <= last; at = (at & ~(page - 1)) + page)
		if (av_copy_probe((const void *)(uintptr_t)at, writable) != AV_COPY_OK)
			return false;
	return true;
}

/* Populate all pages of the range. @plain: av_odp_is_plain(). */
static int populate_region(uint64_t addr, uint64_t length, bool writable, uint64_t page, bool plain)
{
	uint64_t begin = addr & ~(page - 1);
	uint64_t bytes = av_round_up(addr - begin + length, page);
	int err = 0;

	/*
	 * A large range with holes would be populated up to the first. A mistaken range of
	 * gigabytes may cover anything, even our own sparse segments.
	 */
	if (bytes > LOOK_FIRST && !plain)
		err = av_mapped_check(begin, bytes, writable);
	if (err == 0)
		err = av_mapped_populate(begin, bytes, writable);
	return err == EINVAL ? 0 : err; /* an old kernel: it is brought in when it is used */
}

bool av_region_same_rights(uint32_t from, uint32_t to)
{
	return (from & WRITERS) || !(to & WRITERS); /* writable pages are readable, too */
}

/* ODP memory is not looked at, so any range will do. (0, SIZE_MAX) is the whole address space. */
static int check_on_demand(const struct av_region_request *req)
{
	if (req->length == SIZE_MAX)
		return req->addr || req->iova || (req->access & IBV_ACCESS_HUGETLB)
			       ? av_refuse(EINVAL, AV_CHECK_MR_IMPLICIT,
					   req->addr ? req->addr : req->iova, req->access)
			       : 0;
	if (req->length == 0)
		return av_refuse(EINVAL, AV_CHECK_MR_EMPTY, 0, 0);
	return av_range_wraps(req->addr, req->length) ? refuse_range(EOVERFLOW, req) : 0;
}

static int prepare_on_demand(const struct av_region_request *req, uint64_t page)
{
	int ret = check_on_demand(req);

	return ret || req->length == SIZE_MAX ? ret : check_range(req, page);
}

/* ANYVERBS_WATCH=odp: ordinary regions are not tracked. */
static bool is_tracking(void)
{
	static struct av_setting setting = {.variable = "ANYVERBS_WATCH", .value = "odp"};

	return !av_setting_is(&setting);
}

/*
 * Have the range tracked. Earlier unmappings are recorded first, or they would count against this
 * memory: a munmap()'s event may be unread although its addresses are in use again. Return: the
 * moment after which an unmapping concerns this region.
 */
static uint64_t track_region_unmaps(struct av_seg *seg, uint64_t addr, uint64_t length)
{
	uint64_t moment;

	if (!is_tracking())
		return AV_UNMAPPED_NEVER;
	av_odp_notify_begin(seg);
	av_odp_barrier();
	moment = av_unmapped_now(seg);
	(void)!av_odp_track(seg, addr,
			    length); /* false means a hole, which populate_region() will report */
	return moment;
}

static int prepare_pinned(struct av_seg *seg, const struct av_region_request *req, uint64_t page,
			  struct av_key *what)
{
	int ret = check_range(req, page);
	bool writable = req->access & WRITERS, plain;

	if (ret || req->length == 0)
		return ret;
	av_deferred_sweep(seg);
	if (!req->private)
		av_heap_region(seg, what);
	what->intact = track_region_unmaps(seg, req->addr, req->length);
	plain = av_odp_is_plain(seg, req->addr, req->length);
	if (!plain || !touch(req->addr, req->length, writable, page))
		ret = populate_region(req->addr, req->length, writable, page, plain);
	if (ret)
		av_heap_region_end(seg, what->heap);
	else if (!what->heap && !req->private && !plain)
		what->heap = av_file_region(seg, req->addr, req->length);
	if (ret == EFAULT)
		(void)av_missing_note(req->addr, req->length, writable);
	return ret;
}

int av_region_prepare(struct av_seg *seg, const struct av_region_request *req, struct av_key *what)
{
	uint64_t page = av_page_bytes();
	bool on_demand = req->access & IBV_ACCESS_ON_DEMAND;
	int ret = av_region_check_rights(seg, req->access);

	*what = (struct av_key){
		.kind = on_demand ? AV_KEY_ODP : AV_KEY_REGION,
		.access = req->access,
		.base = req->access & IBV_ACCESS_ZERO_BASED ? 0 : req->iova,
		.length = req->length,
		.addr = req->addr,
	};
	if (ret == 0)
		ret = on_demand ? prepare_on_demand(req, page)
				: prepare_pinned(seg, req, page, what);
	if (ret == 0)
		(void)av_copy_init(); /* without it, copies take the slow path */
	return ret;
}
