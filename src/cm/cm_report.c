/* SPDX-License-Identifier: MIT */
#include "cm/cm_report.h"

#include <errno.h>
#include <string.h>

#include "device/port.h"
#include "net/net.h"
#include "registry/cm_ports.h"

/* Note why a verb is about to fail with @err. Return: @err */
static int note(int err, enum av_check check, uint64_t wanted, uint64_t limit,
		const uint8_t gid[16])
{
	struct av_flight_record *r;

	(void)av_refuse(err, check, wanted, limit);
	r = av_diag_pending();
	memcpy(r->gid, gid, sizeof(r->gid));
	r->has |= AV_HAS_GID;
	return err;
}

/* The same of the destination that the program has named, and what that was taken for. */
static int note_way(int err, enum av_check check, uint64_t wanted, uint64_t limit,
		    const struct av_cm_way *way)
{
	struct av_flight_record *r;

	(void)note(err, check, wanted, limit, way->named);
	r = av_diag_pending();
	if (memcmp(way->named, way->path.dst, sizeof(way->named)) == 0)
		return err;
	memcpy(r->taken_for, way->path.dst, sizeof(r->taken_for));
	r->has |= AV_HAS_TAKEN_FOR;
	return err;
}

/* Listeners of this network namespace in that port space. */
static unsigned int listeners(uint16_t ps)
{
	uint64_t netns = av_netns_of_thread();
	unsigned int count = 0;
	struct av_cm_port p;

	for (uint32_t at = 0; av_cm_port_next(&at, &p);)
		count += p.listens && p.netns == netns && p.ps == ps;
	return count;
}

static int note_no_listener(const struct av_cm_way *way, uint64_t service_id)
{
	bool own = av_cm_is_own(way->path.dst);
	unsigned int others = own ? listeners(av_cm_service_ps(service_id)) : 0;

	return note_way(ECONNREFUSED, others ? AV_CHECK_CM_OTHER_PORTS : AV_CHECK_CM_NO_LISTENER,
			av_cm_service_port(service_id), others, way);
}

void av_cm_report_refused(const struct av_cm_way *way, uint64_t service_id, uint32_t reason,
			  bool unknown)
{
	int err = unknown ? note_no_listener(way, service_id)
			  : note_way(ECONNREFUSED, AV_CHECK_CM_REFUSED,
				     av_cm_service_port(service_id), reason, way);

	(void)av_refused(AV_VERB_CM_CONNECT, err);
}

void av_cm_report_silence(const struct av_cm_way *way, uint64_t service_id, unsigned int requests)
{
	enum av_check check =
		way->proc ? AV_CHECK_PEER_SILENT : av_check_of_silence(-av_net_heard(&way->path));

	if (check == AV_CHECK_PEER_SILENT)
		(void)note_way(ETIMEDOUT, AV_CHECK_CM_NO_ANSWER, av_cm_service_port(service_id),
			       requests, way);
	else
		(void)note_way(ETIMEDOUT, check, AV_MAD_BYTES, 0, way);
	(void)av_refused(AV_VERB_CM_CONNECT, ETIMEDOUT);
}

int av_cm_refuse_name(int err, enum av_check check, const struct av_cm_name *name)
{
	return -note(err, check, name->port, 0, name->address);
}

void av_cm_report_unresolved(const struct av_cm_name *dst)
{
	(void)av_cm_refuse_name(ENODEV, AV_CHECK_CM_NOT_OURS, dst);
	(void)av_refused(AV_VERB_CM_RESOLVE_ADDR, ENODEV);
}
