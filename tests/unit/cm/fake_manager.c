/* SPDX-License-Identifier: MIT */
#include "unit/cm/fake_manager.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/watcher.h"
#include "cm/cm.h"
#include "cm/cm_address.h"
#include "cm/id.h"
#include "copy/copy.h"
#include "device/port.h"
#include "lib/check.h"
#include "lib/own_directory.h"

uint32_t manager_proc[LINK_HOSTS];

/* --- cm/id.h ----------------------------------------------------------------- */

pthread_mutex_t av_cm_mutex = PTHREAD_MUTEX_INITIALIZER;
static bool locked;
static uint64_t due = UINT64_MAX;

void av_cm_lock(void)
{
	CHECK(!locked);
	locked = true;
}

void av_cm_unlock(void)
{
	CHECK(locked);
	locked = false;
}

void av_cm_wake(uint64_t due_ns)
{
	CHECK(locked);
	if (due_ns < due)
		due = due_ns;
}

void av_cm_alarm_begin(void)
{
	due = UINT64_MAX;
}

void av_cm_sleep(void)
{
	CHECK(!"there is no thread");
}

uint64_t manager_due(void)
{
	return due;
}

void manager_look(void)
{
	due = UINT64_MAX;
	av_cm_look();
}

/* --- base/watcher.h --------------------------------------------------------------- */

static bool opens_host;
static struct av_watch_fd *host_watch;

void av_watch_begin(struct av_watch_fd *w)
{
	if (opens_host)
		host_watch = w;
	opens_host = false;
}

void av_watch_end(struct av_watch_fd *w)
{
}

/* --- device/port.h, device/port.h -------------------------------------------------- */

/* Processes of one directory have one host. */
static unsigned int host(void)
{
	return av_lock_self == manager_proc[1] ? 0 : link_here;
}

uint64_t av_netns_of_thread(void)
{
	return host() + 1;
}

unsigned int av_port_gids(const struct av_device *dev, struct av_gid gids[AV_GID_MAX])
{
	gids[0] = (struct av_gid){
		.gid = link_gid(host()), .type = IBV_GID_TYPE_ROCE_V2, .ifname = "fake"};
	return 1;
}

void av_port_attr(const struct av_device *dev, struct ibv_port_attr *port)
{
	*port = (struct ibv_port_attr){.active_mtu = IBV_MTU_1024};
}

bool av_port_watch_open(struct av_own_fd *own)
{
	return opens_host = true;
}

bool av_port_watch_heard(int fd)
{
	return true;
}

void manager_host_changes(void)
{
	host_watch->ready(host_watch);
	manager_look();
}

void av_gid_from_guid(uint64_t guid, struct av_gid *gid)
{
	CHECK(!"there are no captures");
}

void av_gid_interface_hardware(uint32_t ifindex, uint8_t address[AV_HARDWARE_BYTES])
{
	memset(address, 0, AV_HARDWARE_BYTES);
}

/* --- processes -------------------------------------------------------------------- */

static pid_t peer;

/* It does nothing but live: its code runs here. */
static void live(int to)
{
	uint32_t own;

	CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && av_dir_join(NULL) == 0);
	own = av_lock_self;
	CHECK(write(to, &own, sizeof(own)) == sizeof(own));
	for (;;)
		pause();
}

void manager_peer_begins(void)
{
	int ends[2];

	CHECK(pipe(ends) == 0);
	peer = fork();
	CHECK(peer >= 0);
	if (peer == 0)
		live(ends[1]);
	CHECK(read(ends[0], &manager_proc[1], sizeof(uint32_t)) == sizeof(uint32_t));
	close(ends[0]);
	close(ends[1]);
}

void manager_peer_dies(void)
{
	CHECK(kill(peer, SIGKILL) == 0);
	CHECK(waitpid(peer, NULL, 0) == peer);
}

int manager_set_up(void **state)
{
	if (own_directory_join(state) || av_copy_init())
		return -1;
	manager_proc[0] = av_lock_self;
	manager_peer_begins();
	av_cm_host_begin();
	return av_cm_prepare();
}

int manager_tear_down(void **state)
{
	av_lock_self = manager_proc[0];
	manager_peer_dies();
	return own_directory_leave(state);
}
