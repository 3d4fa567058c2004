/* SPDX-License-Identifier: MIT */
/* GID tables and states of ports, in the directory. */
#include "device/port.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/random.h"
#include "device/switches.h"
#include "observe/freedom.h"

#define PHYS_STATE_DISABLED 3 /* code of PortInfo */

/* Why a port is down decides what brings it up again. */
enum port_state { PORT_UP, PORT_LINK_DOWN, PORT_FORCED_DOWN };

/* --- words ----------------------------------------------------------------------- */

/* Names and addresses are shared as words; others may change them between two loads. */
static void load_words(const _Atomic uint64_t *from, size_t words, void *to)
{
	for (size_t i = 0; i < words; i++) {
		uint64_t word = atomic_load_explicit(&from[i], memory_order_acquire);

		memcpy((char *)to + i * sizeof(word), &word, sizeof(word));
	}
}

static void store_words(_Atomic uint64_t *to, size_t words, const void *from)
{
	for (size_t i = 0; i < words; i++) {
		uint64_t word;

		memcpy(&word, (const char *)from + i * sizeof(word), sizeof(word));
		atomic_store_explicit(&to[i], word, memory_order_release);
	}
}

struct name {
	char text[AV_DIR_NAME_WORDS * sizeof(uint64_t)];
};

static struct name load_port_name(const struct av_dir_port *p)
{
	struct name name;

	load_words(p->device, AV_DIR_NAME_WORDS, name.text);
	name.text[sizeof(name.text) - 1] = '\0';
	return name;
}

/* --- rows ------------------------------------------------------------------------ */

static bool load_row(const struct av_dir_gid *from, struct av_gid *row)
{
	uint32_t stamp = atomic_load_explicit(&from->stamp, memory_order_acquire), before;

	do {
		before = stamp;
		memset(row, 0, sizeof(*row));
		if (!(stamp & 1))
			return false;
		load_words(from->gid, 2, row->gid.raw);
		load_words(from->ifname, 2, row->ifname);
		row->type = atomic_load_explicit(&from->type, memory_order_acquire);
		row->ifindex = atomic_load_explicit(&from->ifindex, memory_order_acquire);
		stamp = atomic_load_explicit(&from->stamp, memory_order_acquire);
	} while (stamp != before);
	row->ifname[sizeof(row->ifname) - 1] = '\0';
	return true;
}

/* An empty row keeps its words: see av_port_gid(). */
static void store_row(struct av_dir_gid *to, const struct av_gid *row)
{
	uint32_t stamp = atomic_load(&to->stamp);

	stamp += stamp & 1;
	atomic_store(&to->stamp, stamp); /* empty now; orders the stores below after it */
	if (av_gid_is_empty(row))
		return;
	store_words(to->gid, 2, row->gid.raw);
	store_words(to->ifname, 2, row->ifname);
	atomic_store_explicit(&to->type, row->type, memory_order_release);
	atomic_store_explicit(&to->ifindex, row->ifindex, memory_order_release);
	atomic_store_explicit(&to->stamp, stamp + 1, memory_order_release);
}

/* Load all rows. Return: number of rows up to the last one in use. */
static unsigned int load_table(const struct av_dir_port *p, struct av_gid gids[AV_GID_MAX])
{
	unsigned int end = 0;

	for (unsigned int i = 0; i < AV_GID_MAX; i++)
		if (load_row(&p->row[i], &gids[i]))
			end = i + 1;
	return end;
}

static bool has_gid(const _Atomic uint64_t at[2], const union ibv_gid *gid)
{
	union ibv_gid there;

	load_words(at, 2, there.raw);
	return !memcmp(there.raw, gid->raw, sizeof(gid->raw));
}

static void record_past_gid(struct av_dir_port *p, const union ibv_gid *gid)
{
	store_words(p->past[p->past_count++ % AV_GID_MAX], 2, gid->raw);
}

/* --- which port ------------------------------------------------------------------ */

uint64_t av_netns_of_thread(void)
{
	struct stat st;
	AV_ERRNO_KEPT;

	return stat("/proc/thread-self/ns/net", &st) ? 0 : (uint64_t)st.st_ino;
}

static bool is_port_in_use(const struct av_dir_file *d, uint32_t port)
{
	for (uint32_t i = 0; i < av_dir_rows(&d->context_end, AV_REF_SLOTS); i++)
		if (atomic_load(&d->context[i].port) == port && atomic_load(&d->context[i].ref))
			return true;
	return false;
}

/* Does a context of this process use it? */
static bool is_own(const struct av_dir_file *d, uint32_t port)
{
	for (uint32_t i = 0; i < av_dir_rows(&d->context_end, AV_REF_SLOTS); i++)
		if (atomic_load(&d->context[i].port) == port && av_lock_self &&
		    atomic_load(&d->context[i].proc) == av_lock_self)
			return true;
	return false;
}

static bool is_port_of_device(const struct av_dir_port *p, const char *device)
{
	return strcmp(load_port_name(p).text, device) == 0;
}

static struct av_gid_form form_for(const struct av_device *dev)
{
	bool empty = dev->strict & AV_FREEDOM_BIT(AV_FREEDOM_GIDS) &&
		     dev->port.gid_tbl_len > AV_GID_EMPTY;

	return (struct av_gid_form){
		.max = (unsigned int)dev->port.gid_tbl_len,
		.empty = empty ? AV_GID_EMPTY : 0,
		.paired = dev->gids_paired,
		.guid = dev->guid,
	};
}

/* The device's port there, of its kind of table? A row becoming another may match either. */
static bool is_port(const struct av_dir_port *p, const struct av_device *dev, uint64_t netns)
{
	return atomic_load(&p->ready) && is_port_of_device(p, dev->ibv.name) &&
	       atomic_load(&p->netns) == netns &&
	       (atomic_load(&p->paired) != 0) == dev->gids_paired &&
	       atomic_load(&p->empty) == form_for(dev).empty;
}

/* Number of the device's port in that namespace if somebody has it open, else 0. */
static uint32_t find_open_port(const struct av_dir_file *d, const struct av_device *dev,
			       uint64_t netns)
{
	for (uint32_t i = 0; i < av_dir_rows(&d->port_end, AV_DIR_PORTS); i++)
		if (is_port(&d->port[i], dev, netns) && is_port_in_use(d, i + 1))
			return i + 1;
	return 0;
}

/* The same, but contexts of dead processes do not count. */
static uint32_t find_living(const struct av_dir_view *view, const struct av_device *dev,
			    uint64_t netns)
{
	uint32_t port = find_open_port(view->dir, dev, netns);

	if (port && is_own(view->dir, port))
		return port;
	for (uint32_t i = 0; port && i < av_dir_rows(&view->dir->context_end, AV_REF_SLOTS); i++)
		if (atomic_load(&view->dir->context[i].port) == port && av_dir_view_lives(view, i))
			return port;
	return 0;
}

/* Does the port follow the host's addresses in that namespace? */
static bool is_followed(const struct av_dir_port *p, uint64_t netns)
{
	return atomic_load(&p->device[0]) && atomic_load(&p->follows) &&
	       atomic_load(&p->netns) == netns;
}

/* --- following the host ---------------------------------------------------------- */

/* The events of one change, in the order in which they are raised. */
struct news {
	enum ibv_event_type event[2];
	unsigned int count;
};

static void add_port_event(struct news *news, enum ibv_event_type event)
{
	news->event[news->count++] = event;
}

static void report_port_down(const struct av_dir_port *p)
{
	struct av_flight_record *r = av_diag_note(AV_CHECK_PORT_DOWN, 0, 0);

	r->kind = AV_FLIGHT_EVENT;
	r->object = AV_OBJECT_PORT;
	r->number = 1;
	r->event = IBV_EVENT_PORT_ERR;
	snprintf(r->device, sizeof(r->device), "%s", load_port_name(p).text);
	r->has = AV_HAS_OBJECT | AV_HAS_EVENT;
	av_report();
}

/* Return: number of contexts that were notified. */
static unsigned int notify_port_contexts(uint32_t port, enum ibv_event_type event)
{
	struct av_doorbell_record record = {.event = event, .kind = AV_SLAB_N, .index = 1};
	unsigned int told = 0;
	uint32_t slot = 0, ref;

	if (event == IBV_EVENT_PORT_ERR)
		report_port_down(&av_dir->port[port - 1]);
	while ((ref = av_dir_context_at(&slot)))
		if (atomic_load(&av_dir->context[slot - 1].port) == port)
			told += av_doorbell_ring_context(ref, AV_DOORBELL_ASYNC, &record) == 0;
	return told;
}

/* Are all interfaces down that served the port? Loopback ones count only without others. */
static bool carriers_down(const struct av_gid table[AV_GID_MAX], uint32_t served)
{
	for (unsigned int i = 0; i < AV_GID_MAX; i++)
		if (!av_gid_is_empty(&table[i]) &&
		    (served != AV_LINK_NETWORK || table[i].ifindex != AV_LOOPBACK_IFINDEX) &&
		    av_gid_interface_up(table[i].ifindex))
			return false;
	return true;
}

/* @table: the rows before the change. */
static void update_port_link(struct av_dir_port *p, const struct av_gid *table, enum av_link link,
			     struct news *news)
{
	uint32_t state = atomic_load(&p->state), served = atomic_load(&p->served);

	if (state == PORT_UP && link < served && carriers_down(table, served)) {
		atomic_store(&p->state, PORT_LINK_DOWN);
		av_dir_count_down(load_port_name(p).text);
		add_port_event(news, IBV_EVENT_PORT_ERR);
	} else if (state == PORT_LINK_DOWN && link >= served) {
		atomic_store(&p->state, PORT_UP);
		atomic_store(&p->served, link);
		add_port_event(news, IBV_EVENT_PORT_ACTIVE);
	} else if (state != PORT_LINK_DOWN) {
		atomic_store(&p->served, link);
	}
}

/* Context: in a change */
static void follow_table(struct av_dir_port *p, const struct av_gid *table)
{
	for (unsigned int i = 0; i < AV_GID_MAX; i++) {
		struct av_gid before;

		(void)!load_row(&p->row[i], &before);
		if (!memcmp(&before, &table[i], sizeof(before)))
			continue;
		if (!av_gid_is_empty(&before))
			record_past_gid(p, &before.gid);
		store_row(&p->row[i], &table[i]);
	}
}

static struct av_gid_form form_of(const struct av_dir_port *p)
{
	return (struct av_gid_form){
		.max = atomic_load(&p->max),
		.empty = atomic_load(&p->empty),
		.paired = atomic_load(&p->paired),
		.guid = atomic_load(&p->guid),
	};
}

/* The MTU that the table's interfaces carry. */
static enum ibv_mtu mtu_of(const struct av_host_gids *host)
{
	return av_mtu_of_rows(host->row, host->count);
}

/* Does the port agree with the host? @form: @host's; the port may have another by now. */
static bool is_current(const struct av_dir_port *p, const struct av_gid_form *form,
		       const struct av_host_gids *host)
{
	struct av_gid table[AV_GID_MAX];
	uint32_t state = atomic_load(&p->state), served = atomic_load(&p->served);

	(void)load_table(p, table);
	if (av_gid_merge(table, form, host->row, host->count) ||
	    atomic_load(&p->mtu) != mtu_of(host))
		return false;
	return state == PORT_LINK_DOWN ? host->link < served : host->link == served;
}

/* Reads the host's addresses again: @host may be older than the table. Context: in a change. */
static void bring_up_to_date(struct av_dir_port *p, struct av_host_gids *host, struct news *news)
{
	const struct av_gid_form form = form_of(p);
	struct av_gid table[AV_GID_MAX];

	av_gid_from_host(host, &form);
	if (host->count == 0)
		return;
	(void)load_table(p, table);
	update_port_link(p, table, host->link, news);
	atomic_store(&p->mtu, mtu_of(host));
	if (!av_gid_merge(table, &form, host->row, host->count))
		return;
	follow_table(p, table);
	add_port_event(news, IBV_EVENT_GID_CHANGE);
}

/* @netns: this thread's. Return: false: the port may not agree with the host */
static bool sync_port_with_host(uint32_t port, uint64_t netns)
{
	struct av_dir_port *p = &av_dir->port[port - 1];
	const struct av_gid_form form = form_of(p);
	struct news news = {.count = 0};
	struct av_host_gids host;

	if (!atomic_load(&p->follows))
		return true;
	av_gid_from_host(&host, &form);
	if (host.count == 0)
		return false;
	if (is_current(p, &form, &host))
		return true;
	if (av_dir_change_begin())
		return false; /* the next look brings it up to date */
	if (is_followed(p, netns) &&
	    is_port_in_use(av_dir, port)) /* it, or another one that follows */
		bring_up_to_date(p, &host, &news);
	av_dir_change_end();
	for (unsigned int i = 0; i < news.count; i++)
		(void)notify_port_contexts(port, news.event[i]);
	return true;
}

bool av_port_follow(uint64_t netns)
{
	bool current = true;

	for (uint32_t port = 1; port <= av_dir_rows(&av_dir->port_end, AV_DIR_PORTS); port++)
		if (is_followed(&av_dir->port[port - 1], netns) && is_port_in_use(av_dir, port))
			current &= sync_port_with_host(port, netns);
	return current;
}

/* --- contexts -------------------------------------------------------------------- */

/* The table that the device's port would have if it were opened now. */
static void make_table(const struct av_device *dev, struct av_host_gids *host)
{
	const struct av_gid_form form = form_for(dev);

	if (dev->port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		av_gid_from_host(host, &form);
		return;
	}
	av_gid_from_guid(dev->guid, &host->row[0]);
	host->count = 1;
	host->link = AV_LINK_NETWORK;
}

/* Context: within a change, nobody uses @p. */
static void init_dir_port(struct av_dir_port *p, const struct av_device *dev, uint64_t netns,
			  const struct av_host_gids *host)
{
	const struct av_gid_form form = form_for(dev);
	static const struct av_gid none;
	struct name name = {{0}};

	snprintf(name.text, sizeof(name.text), "%s", dev->ibv.name);
	store_words(p->device, AV_DIR_NAME_WORDS, name.text);
	atomic_store(&p->netns, netns);
	atomic_store(&p->max, form.max);
	atomic_store(&p->empty, form.empty);
	atomic_store(&p->follows, dev->port.link_layer == IBV_LINK_LAYER_ETHERNET);
	atomic_store(&p->paired, dev->gids_paired);
	atomic_store(&p->guid, dev->guid);
	atomic_store(&p->served, host->link);
	atomic_store(&p->mtu, mtu_of(host));
	atomic_store(&p->state, PORT_UP);
	for (uint32_t i = 0; i < AV_GID_MAX; i++)
		store_row(&p->row[i], i < host->count ? &host->row[i] : &none);
	for (uint32_t i = 0; i < AV_GID_MAX; i++)
		record_past_gid(p, &none.gid);
	atomic_store(&p->ready, 1);
}

/*
 * Use a port that is open already, without a change of the directory. The port may end at any
 * moment: so this records the use, then checks the row again. Whoever reuses the row clears @ready,
 * then looks for users. So one of the two sees the other.
 */
static uint32_t use_open(struct av_dir_context *c, const struct av_device *dev, uint64_t netns)
{
	uint32_t port = find_open_port(av_dir, dev, netns);

	if (!port)
		return 0;
	atomic_store(&c->port, port);
	if (is_port(&av_dir->port[port - 1], dev, netns))
		return port;
	atomic_store(&c->port, 0);
	return 0;
}

/* Context: within a change. Return: the number of a row that nobody uses or will use, or 0 */
static uint32_t withdraw_unused(void)
{
	for (uint32_t port = 1; port <= AV_DIR_PORTS; port++) {
		_Atomic uint32_t *ready = &av_dir->port[port - 1].ready;
		uint32_t was = atomic_load(ready);

		if (is_port_in_use(av_dir, port))
			continue;
		atomic_store(ready, 0);
		if (!is_port_in_use(av_dir, port))
			return port;
		atomic_store(ready, was);
	}
	return 0;
}

/* Context: within a change. Return: the number, or -errno */
static int use_new(struct av_dir_context *c, const struct av_device *dev, uint64_t netns)
{
	struct av_host_gids host;
	uint32_t port;

	make_table(dev, &host);
	if (host.count == 0)
		return -ENOMEM;
	port = withdraw_unused();
	if (!port)
		return -ENOSPC;
	init_dir_port(&av_dir->port[port - 1], dev, netns, &host);
	av_dir_will_use(&av_dir->port_end, port - 1);
	atomic_store(&c->port, port);
	return (int)port;
}

int av_port_open(uint32_t ref, const struct av_device *dev)
{
	struct av_dir_context *c = &av_dir->context[AV_REF_SLOT(ref)];
	uint64_t netns = av_netns_of_thread();
	int port = (int)use_open(c, dev, netns), ret;

	if (port)
		return port;
	ret = av_dir_change_begin();
	if (ret)
		return ret;
	port = (int)use_open(c, dev, netns);
	if (!port)
		port = use_new(c, dev, netns);
	av_dir_change_end();
	return port;
}

static enum ibv_mtu active_mtu(uint32_t port, const struct av_device *dev)
{
	return dev->mtu_follows ? atomic_load(&av_dir->port[port - 1].mtu) : dev->port.max_mtu;
}

struct av_seg *av_device_open(const struct av_device *dev, uint32_t origin)
{
	const struct av_seg_device said = {
		.name = dev->ibv.name, .link_layer = dev->port.link_layer, .lid = dev->port.lid};
	struct av_seg *seg = av_seg_create(&said, origin);
	uint32_t switches = 0;
	int port, err;

	if (!seg)
		return NULL;
	port = av_port_open(seg->ref, dev);
	err = port < 0 ? port : av_switches_take(dev->ibv.name, &switches);
	if (err) {
		av_seg_close(seg);
		errno = -err;
		return NULL;
	}
	seg->head->port = (uint32_t)port;
	seg->head->mtu = (uint8_t)active_mtu((uint32_t)port, dev);
	seg->head->switches = switches;
	seg->head->strict = dev->strict;
	seg->head->seed = dev->seed ? dev->seed : av_random();
	return seg;
}

/* --- queries --------------------------------------------------------------------- */

/* A port that is open somewhere, as the directory has it. */
struct look {
	struct av_gid *gids; /* in: where its table goes; NULL: not asked */
	unsigned int rows;
	bool down;
	enum ibv_mtu mtu;
};

/* Return: false: it is not open, or ends meanwhile */
static bool read_open_port(const struct av_device *dev, uint64_t netns, struct look *look)
{
	const struct av_dir_port *p;
	struct av_dir_view view;
	bool open = false;
	uint32_t port;

	if (!av_dir_view(&view))
		return false;
	port = find_living(&view, dev, netns);
	if (port) {
		p = &view.dir->port[port - 1];
		look->rows = look->gids ? load_table(p, look->gids) : 0;
		look->down = atomic_load(&p->state) != PORT_UP;
		look->mtu = atomic_load(&p->mtu);
		open = is_port(p, dev, netns);
	}
	av_dir_view_end(&view);
	return open;
}

/* Update the port from the host, if it is open, and raise events in its contexts. */
static void refresh(const struct av_device *dev, uint64_t netns)
{
	uint32_t port;

	if (!av_dir_join_again())
		return;
	port = find_open_port(av_dir, dev, netns);
	if (port && !(is_own(av_dir, port) && av_port_watch_look(netns)))
		(void)sync_port_with_host(port, netns);
	av_dir_leave();
}

unsigned int av_port_gids(const struct av_device *dev, struct av_gid gids[AV_GID_MAX])
{
	uint64_t netns = av_netns_of_thread();
	AV_ERRNO_KEPT;
	struct look look = {.gids = gids};
	struct av_host_gids host;

	refresh(dev, netns);
	if (!read_open_port(dev, netns, &look) || look.rows == 0) {
		make_table(dev, &host);
		memcpy(gids, host.row, host.count * sizeof(gids[0]));
		look.rows = host.count;
	}
	return look.rows;
}

void av_port_attr(const struct av_device *dev, struct ibv_port_attr *port)
{
	AV_ERRNO_KEPT;
	struct look look = {.gids = NULL};
	struct av_host_gids host;
	bool open = read_open_port(dev, av_netns_of_thread(), &look);

	*port = dev->port;
	if (open && look.down) {
		port->state = IBV_PORT_DOWN;
		port->phys_state = PHYS_STATE_DISABLED;
	}
	if (dev->mtu_follows && !open) {
		make_table(dev, &host);
		look.mtu = mtu_of(&host);
	}
	if (dev->mtu_follows)
		port->active_mtu = look.mtu;
}

/* --- addresses, for those who send ----------------------------------------------- */

bool av_port_has_gid(uint32_t port, const union ibv_gid *gid)
{
	const struct av_dir_port *p;

	if (port - 1 >= AV_DIR_PORTS || av_gid_is_none(gid))
		return false;
	p = &av_dir->port[port - 1];
	for (uint32_t i = 0; i < AV_GID_MAX; i++)
		if (atomic_load_explicit(&p->row[i].stamp, memory_order_acquire) &&
		    has_gid(p->row[i].gid, gid))
			return true;
	for (uint32_t i = 0; i < AV_GID_MAX; i++)
		if (has_gid(p->past[i], gid))
			return true;
	return false;
}

bool av_port_has_row(uint32_t port, uint32_t row)
{
	return av_dir && port - 1 < AV_DIR_PORTS && row < AV_GID_MAX &&
	       (atomic_load(&av_dir->port[port - 1].row[row].stamp) & 1);
}

uint32_t av_port_gid(uint32_t port, uint32_t row, union ibv_gid *gid)
{
	const struct av_dir_gid *from;

	memset(gid, 0, sizeof(*gid));
	if (port - 1 >= AV_DIR_PORTS || row >= AV_GID_MAX)
		return IBV_GID_TYPE_IB;
	from = &av_dir->port[port - 1].row[row];
	load_words(from->gid, 2, gid->raw);
	return atomic_load(&from->type);
}

/* --- on demand ------------------------------------------------------------------- */

unsigned int av_port_force(const char *device, bool down)
{
	unsigned int told = 0;

	for (uint32_t port = 1; port <= av_dir_rows(&av_dir->port_end, AV_DIR_PORTS); port++) {
		struct av_dir_port *p = &av_dir->port[port - 1];
		bool there;

		if (av_dir_change_begin())
			return told;
		there = is_port_of_device(p, device) && is_port_in_use(av_dir, port);
		if (there) {
			atomic_store(&p->state, down ? PORT_FORCED_DOWN : PORT_UP);
			if (down)
				av_dir_count_down(load_port_name(p).text);
			else /* the next look at the host sets it */
				atomic_store(&p->served, AV_LINK_NONE);
		}
		av_dir_change_end();
		if (there)
			told += notify_port_contexts(port, down ? IBV_EVENT_PORT_ERR
								: IBV_EVENT_PORT_ACTIVE);
	}
	return told;
}
