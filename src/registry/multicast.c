/* SPDX-License-Identifier: MIT */
#include "registry/tables.h"

#include <fcntl.h>
#include <string.h>

static bool same_gid(const union ibv_gid *a, const union ibv_gid *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* Member @qpn of a group; with @qpn 0, a free place. Context: the change lock is held. */
static struct av_dir_member *find_member(const union ibv_gid *gid, uint32_t qpn)
{
	for (uint32_t i = 0; i < AV_MAX_MCAST_ATTACH; i++) {
		struct av_dir_member *m = &av_dir->member[i];
		uint32_t there = atomic_load(&m->qpn);

		if (there && !av_dir_context_owner(atomic_load(&m->ref)))
			atomic_store(&m->qpn, there = 0); /* its process is gone */
		if (there == qpn && (qpn == 0 || same_gid(&m->gid, gid)))
			return m;
	}
	return NULL;
}

int av_multicast_attach(const struct av_multicast_member *member)
{
	struct av_dir_member *m;
	int ret = av_dir_change_begin();

	if (ret)
		return ret;
	m = find_member(&member->gid, member->qpn);
	if (!m && (m = find_member(&member->gid, 0))) {
		av_dir_will_use(&av_dir->member_end, (uint32_t)(m - av_dir->member));
		m->gid = member->gid;
		m->index = member->location.index;
		atomic_store(&m->ref, member->location.ref);
		atomic_store(&m->qpn, member->qpn);
	}
	av_dir_change_end();
	return m ? 0 : -ENOMEM;
}

/* Only this process attaches and detaches its queue pairs. */
int av_multicast_detach(const union ibv_gid *gid, uint32_t qpn)
{
	int ret = -EINVAL;

	av_dir_hold();
	for (uint32_t i = 0; ret && i < AV_MAX_MCAST_ATTACH; i++) {
		struct av_dir_member *m = &av_dir->member[i];

		if (atomic_load(&m->qpn) == qpn && same_gid(&m->gid, gid)) {
			atomic_store(&m->qpn, 0);
			ret = 0;
		}
	}
	av_dir_release();
	return ret;
}

bool av_multicast_next(const union ibv_gid *gid, uint32_t qpn, uint32_t *at,
		       struct av_multicast_member *member)
{
	uint32_t end = av_dir_rows(&av_dir->member_end, AV_MAX_MCAST_ATTACH);

	while (*at < end) {
		const struct av_dir_member *m = &av_dir->member[(*at)++];
		uint32_t there = atomic_load(&m->qpn);

		if (there == 0 || (qpn && there != qpn) || (gid && !same_gid(&m->gid, gid)))
			continue;
		*member = (struct av_multicast_member){
			m->gid, {atomic_load(&m->ref), m->index}, there};
		if (atomic_load(&m->qpn) == there)
			return true;
	}
	return false;
}

/* XRC domains: which are open, in which contexts, and which file names them. */

static bool xrcd_live(struct av_dir_xrcd *x)
{
	uint32_t ref = atomic_load(&x->ref);

	if (ref && !av_dir_context_owner(ref))
		atomic_store(&x->ref, ref = 0);
	return ref != 0;
}

/* A named domain's number, or 0: not open. @mine: this context's entry of it. */
static uint32_t xrcd_find(uint32_t ref, uint64_t dev, uint64_t ino, struct av_dir_xrcd **mine,
			  struct av_dir_xrcd **free)
{
	uint32_t number = 0;

	for (uint32_t i = 0; i < AV_MAX_XRCD; i++) {
		struct av_dir_xrcd *x = &av_dir->xrcd[i];

		if (!xrcd_live(x)) {
			if (!*free)
				*free = x;
			/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): @x is a row */
		} else if ((dev || ino) && x->dev == dev && x->ino == ino) {
			number = x->number;
			if (atomic_load(&x->ref) == ref)
				*mine = x;
		}
	}
	return number;
}

static int xrcd_open(uint32_t ref, uint64_t dev, uint64_t ino, int oflags)
{
	struct av_dir_xrcd *mine = NULL, *free = NULL;
	uint32_t number = xrcd_find(ref, dev, ino, &mine, &free);

	if (!number && !(oflags & O_CREAT))
		return -EAGAIN;
	if (number && (oflags & O_EXCL))
		return -EINVAL;
	if (mine) {
		mine->opens++;
		return (int)number;
	}
	if (!free)
		return -ENOMEM;
	if (!number)
		number = ++av_dir->xrcd_last & 0x7fffffff;
	*free = (struct av_dir_xrcd){.number = number, .opens = 1, .dev = dev, .ino = ino};
	atomic_store(&free->ref, ref);
	return (int)number;
}

int av_dir_xrcd_open(uint32_t ref, uint64_t dev, uint64_t ino, int oflags)
{
	int ret = av_dir_change_begin();

	if (ret)
		return ret;
	ret = xrcd_open(ref, dev, ino, oflags);
	av_dir_change_end();
	return ret;
}

/* Only this process has entries of its contexts: others see one end at any time. */
void av_dir_xrcd_close(uint32_t ref, uint32_t number)
{
	av_dir_hold();
	for (uint32_t i = 0; i < AV_MAX_XRCD; i++) {
		struct av_dir_xrcd *x = &av_dir->xrcd[i];

		if (atomic_load(&x->ref) == ref && x->number == number) {
			if (--x->opens == 0)
				atomic_store(&x->ref, 0);
			break;
		}
	}
	av_dir_release();
}
