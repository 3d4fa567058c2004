/* SPDX-License-Identifier: MIT */
/* Queries of a device, its port and its address tables. */
#include <arpa/inet.h>

#include "device/port.h"
#include "verbs/next.h"

#undef ibv_query_port

static struct av_device *device_of(const struct ibv_context *context)
{
	return av_context_of(context)->dev;
}

/* Return: 0; EINVAL: the device has no such port */
static int check_port(const struct ibv_context *context, uint32_t port)
{
	uint8_t ports = device_of(context)->attr.phys_port_cnt;

	return port >= 1 && port <= ports ? 0 : av_refuse(EINVAL, AV_CHECK_QUERY_PORT, port, ports);
}

AV_EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	AV_BEGIN_OR_PASS_ON(context, ibv_query_device, "IBVERBS_1.1", context, attr);
	AV_FAIL_ON_DEMAND(av_fail_errno, QUERY_DEVICE, context, 0, 0);
	if (av_device_failed(av_context_of(context)))
		return av_fail_errno(AV_VERB_QUERY_DEVICE, EIO);
	*attr = device_of(context)->attr;
	return 0;
}

static int query_device_ex(struct ibv_context *context,
			   const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	AV_UNCANCELLED;
	AV_FAIL_ON_DEMAND(av_fail_errno, QUERY_DEVICE_EX, context, 0, 0);

	if (input && input->comp_mask)
		return av_fail_errno(AV_VERB_QUERY_DEVICE_EX,
				     av_refuse(EINVAL, AV_CHECK_COMP_MASK, input->comp_mask, 0));
	if (av_device_failed(av_context_of(context)))
		return av_fail_errno(AV_VERB_QUERY_DEVICE_EX, EIO);
	return av_device_query_ex(device_of(context), attr, size);
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		      size_t size)
{
	AV_UNCANCELLED;
	AV_FAIL_ON_DEMAND(av_fail_errno, QUERY_PORT, context, 0, 0);
	struct ibv_port_attr ours;
	int err = check_port(context, port);

	if (err)
		return av_fail_errno(AV_VERB_QUERY_PORT, err);
	if (av_device_failed(av_context_of(context)))
		return av_fail_errno(AV_VERB_QUERY_PORT, EIO);
	av_port_attr(device_of(context), &ours);
	memset(attr, 0, size);
	memcpy(attr, &ours, size < sizeof(ours) ? size : sizeof(ours));
	return 0;
}

/* Old binaries have only this much of the structure. */
AV_EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port,
			     struct _compat_ibv_port_attr *attr)
{
	AV_BEGIN_OR_PASS_ON(context, ibv_query_port, "IBVERBS_1.1", context, port, attr);
	return query_port(context, port, (struct ibv_port_attr *)attr,
			  offsetof(struct ibv_port_attr, port_cap_flags2));
}

AV_EXPORT int ibv_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed)
{
	AV_UNCANCELLED;
	if (!av_ours(context))
		return AV_NEXT_OR(av_fail_errno(AV_VERB_QUERY_PORT_SPEED, EOPNOTSUPP),
				  ibv_query_port_speed, "IBVERBS_1.16", context, port, speed);
	struct ibv_port_attr attr;
	int err = check_port(context, port);

	err = err ? av_fail_errno(AV_VERB_QUERY_PORT_SPEED, err)
		  : query_port(context, (uint8_t)port, &attr, sizeof(attr));
	if (err == 0)
		*speed = av_port_rate(&attr).rate;
	return err;
}

/* --- GIDs ------------------------------------------------------------------------ */

/* Reads a row of the GID table. An empty one is all zero. Return: 0, EINVAL or ENOMEM */
static int read_gid_table_row(const struct ibv_context *context, uint32_t port, uint32_t index,
			      struct av_gid *row)
{
	uint32_t rows = (uint32_t)device_of(context)->port.gid_tbl_len;
	struct av_gid gids[AV_GID_MAX];
	unsigned int count;
	int err = check_port(context, port);

	if (err)
		return err;
	if (index >= rows)
		return av_refuse(EINVAL, AV_CHECK_GID_INDEX, (uint64_t)(int)index, rows);
	count = av_port_gids(device_of(context), gids);
	*row = index < count ? gids[index] : (struct av_gid){.type = 0};
	return count ? 0 : ENOMEM;
}

AV_EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index,
			    union ibv_gid *gid)
{
	AV_BEGIN_OR_PASS_ON(context, ibv_query_gid, "IBVERBS_1.1", context, port, index, gid);
	AV_FAIL_ON_DEMAND(av_fail_fd, QUERY_GID, context, 0, 0);
	struct av_gid row;
	int err = read_gid_table_row(context, port, (uint32_t)index, &row);

	if (err)
		return av_fail_fd(AV_VERB_QUERY_GID, err);
	*gid = row.gid;
	return 0;
}

static void fill_entry(struct ibv_gid_entry *to, const struct av_gid *gid, uint32_t index,
		       size_t size)
{
	struct ibv_gid_entry entry = {
		.gid = gid->gid,
		.gid_index = index,
		.port_num = 1,
		.gid_type = gid->type,
		.ndev_ifindex = gid->ifindex,
	};

	memset(to, 0, size);
	memcpy(to, &entry, size < sizeof(entry) ? size : sizeof(entry));
}

AV_EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
				struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	AV_BEGIN_OR_PASS_ON(context, _ibv_query_gid_ex, "IBVERBS_1.11", context, port, index, entry,
			    flags, entry_size);
	AV_FAIL_ON_DEMAND(av_fail_errno, QUERY_GID_EX, context, 0, 0);
	struct av_gid row;
	int err = flags ? av_refuse(EINVAL, AV_CHECK_FLAGS, flags, 0)
			: read_gid_table_row(context, port, index, &row);

	if (err)
		return av_fail_errno(AV_VERB_QUERY_GID_EX, err);
	if (av_gid_is_empty(&row)) /* no failure: programs look through the table */
		return errno = ENODATA;
	fill_entry(entry, &row, index, entry_size);
	return 0;
}

AV_EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
				       size_t max_entries, uint32_t flags, size_t entry_size)
{
	AV_BEGIN_OR_PASS_ON(context, _ibv_query_gid_table, "IBVERBS_1.11", context, entries,
			    max_entries, flags, entry_size);
	AV_FAIL_ON_DEMAND(-av_fail_errno, QUERY_GID_TABLE, context, 0, 0);
	struct av_gid gids[AV_GID_MAX];
	unsigned int count = av_port_gids(device_of(context), gids), rows = 0;
	char *to = (char *)entries;
	int err = count ? 0 : ENOMEM;

	for (unsigned int i = 0; i < count; i++)
		rows += !av_gid_is_empty(&gids[i]);
	if (flags)
		err = av_refuse(EINVAL, AV_CHECK_FLAGS, flags, 0);
	else if (rows > max_entries)
		err = av_refuse(EINVAL, AV_CHECK_GID_ROOM, max_entries, rows);
	if (err)
		return -av_fail_errno(AV_VERB_QUERY_GID_TABLE, err);
	for (unsigned int i = 0; i < count; i++) {
		if (av_gid_is_empty(&gids[i]))
			continue;
		fill_entry((struct ibv_gid_entry *)to, &gids[i], i, entry_size);
		to += entry_size;
	}
	return (ssize_t)rows;
}

/* Private to libibverbs, but ibv_devinfo and pyverbs use it. Types as in the kernel: 0 v1, 1 v2. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index,
		       unsigned int *type);

AV_EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index,
				 unsigned int *type)
{
	AV_BEGIN_OR_PASS_ON(context, ibv_query_gid_type, NULL, context, port, index, type);
	AV_FAIL_ON_DEMAND(av_fail_fd, QUERY_GID_TYPE, context, 0, 0);
	struct av_gid row;
	int err = read_gid_table_row(context, port, index, &row);

	if (err)
		return av_fail_fd(AV_VERB_QUERY_GID_TYPE, err);
	*type = row.type == IBV_GID_TYPE_ROCE_V2;
	return 0;
}

/* --- P_Keys ---------------------------------------------------------------------- */

AV_EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	AV_BEGIN_OR_PASS_ON(context, ibv_query_pkey, "IBVERBS_1.1", context, port, index, pkey);
	AV_FAIL_ON_DEMAND(av_fail_fd, QUERY_PKEY, context, 0, 0);
	int rows = device_of(context)->port.pkey_tbl_len, err = check_port(context, port);

	if (!err && (index < 0 || index >= rows))
		err = av_refuse(EINVAL, AV_CHECK_PKEY_INDEX, (uint64_t)index, (uint64_t)rows);
	if (err)
		return av_fail_fd(AV_VERB_QUERY_PKEY, err);
	*pkey = htons(AV_PKEY_DEFAULT);
	return 0;
}

AV_EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	AV_BEGIN_OR_PASS_ON(context, ibv_get_pkey_index, "IBVERBS_1.5", context, port, pkey);
	AV_FAIL_ON_DEMAND(av_fail_fd, GET_PKEY_INDEX, context, 0, 0);
	int err = check_port(context, port);

	if (!err && pkey != htons(AV_PKEY_DEFAULT))
		err = av_refuse(EINVAL, AV_CHECK_PKEY_ABSENT, ntohs(pkey), AV_PKEY_DEFAULT);
	return err ? av_fail_fd(AV_VERB_GET_PKEY_INDEX, err) : 0;
}

void av_query_fill_ops(struct verbs_context *verbs)
{
	verbs->query_port = query_port;
	verbs->query_device_ex = query_device_ex;
}
