/* SPDX-License-Identifier: MIT */
/*
 * A hash table by port number. A row lies at its home or behind it; the home knows how far behind
 * the last of its rows may be. Rows never move, so that look-ups need no lock.
 */
#include "registry/tables.h"

#include <linux/capability.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/random.h"
#include "wire/address.h"

#define ROWS AV_DIR_CM_PORTS

/* The default of net.ipv4.ip_local_port_range; and PROT_SOCK of the kernel. */
#define CHOICE_FIRST 32768u
#define CHOICES	     (61000u - CHOICE_FIRST)
#define UNPRIVILEGED 1024u

enum { V6 = 1, AFONLY = 2, REUSE = 4, LISTENS = 8 };

/* --- rows ------------------------------------------------------------------------- */

static uint32_t row_at(uint32_t home, uint32_t distance)
{
	return (home + distance) % ROWS;
}

static uint32_t home_of(const struct av_cm_port *p)
{
	uint64_t h = (p->netns * 0x9e3779b97f4a7c15ull ^ ((uint64_t)p->ps << 16 | p->port)) *
		     0x9e3779b97f4a7c15ull;

	return (uint32_t)(h >> 32) % ROWS;
}

static uint32_t reach_of(const struct av_dir_file *d, uint32_t home)
{
	return av_dir_rows(&d->cm_port[home].reach, ROWS);
}

/* Return: false: the row is free, or changed meanwhile */
static bool load_cm_port(const struct av_dir_cm_port *row, struct av_cm_port *p)
{
	uint32_t stamp = atomic_load(&row->stamp), flags = atomic_load(&row->flags);
	uint64_t name = atomic_load(&row->name);
	uint64_t address[2] = {atomic_load(&row->address[0]), atomic_load(&row->address[1])};

	*p = (struct av_cm_port){
		.proc = atomic_load(&row->proc),
		.id = (uint32_t)name,
		.netns = atomic_load(&row->netns),
		.ps = (uint16_t)(name >> 48),
		.port = (uint16_t)(name >> 32),
		.v6 = flags & V6,
		.afonly = flags & AFONLY,
		.reuse = flags & REUSE,
		.listens = flags & LISTENS,
	};
	memcpy(p->address, address, sizeof(address));
	return stamp && atomic_load(&row->stamp) == stamp;
}

static uint32_t options(bool afonly, bool reuse)
{
	return (afonly ? AFONLY : 0u) | (reuse ? REUSE : 0u);
}

/* Published last. Context: within a change; the row is free */
static void store_cm_port(struct av_dir_cm_port *row, const struct av_cm_port *p)
{
	uint64_t address[2];

	memcpy(address, p->address, sizeof(address));
	atomic_store(&row->proc, p->proc);
	atomic_store(&row->flags, (p->v6 ? V6 : 0u) | options(p->afonly, p->reuse));
	atomic_store(&row->netns, p->netns);
	atomic_store(&row->name, (uint64_t)p->ps << 48 | (uint64_t)p->port << 32 | p->id);
	atomic_store(&row->address[0], address[0]);
	atomic_store(&row->address[1], address[1]);
	if (++av_dir->cm_port_last == 0)
		av_dir->cm_port_last = 1;
	atomic_store(&row->stamp, av_dir->cm_port_last);
}

static bool same_number(const struct av_cm_port *a, const struct av_cm_port *b)
{
	return a->netns == b->netns && a->ps == b->ps && a->port == b->port;
}

/* The next row with the number of @like. @distance: in and out. Return: it, or -1 */
static int next_row(uint32_t *distance, const struct av_cm_port *like, struct av_cm_port *p)
{
	uint32_t home = home_of(like);

	while (*distance < reach_of(av_dir, home)) {
		uint32_t i = row_at(home, (*distance)++);

		if (load_cm_port(&av_dir->cm_port[i], p) && same_number(p, like))
			return (int)i;
	}
	return -1;
}

/* --- rules ------------------------------------------------------------------------ */

bool av_cm_is_any(const uint8_t address[16])
{
	static const uint8_t zeros[15];

	if (av_net_is_v4(address))
		return address[12] == 0 || address[12] == 127;
	return memcmp(address, zeros, sizeof(zeros)) == 0 && address[15] <= 1;
}

static bool matches_cm_address(const struct av_cm_port *p, const uint8_t address[16], bool v6)
{
	return p->v6 == v6 && memcmp(p->address, address, sizeof(p->address)) == 0;
}

/* Return: 0: they can have the same number */
static int collide(const struct av_cm_port *a, const struct av_cm_port *b)
{
	if ((a->reuse && b->reuse) || (a->v6 != b->v6 && a->afonly && b->afonly))
		return 0;
	if (av_cm_is_any(a->address) || av_cm_is_any(b->address))
		return -EADDRNOTAVAIL;
	return matches_cm_address(a, b->address, b->v6) ? -EADDRINUSE : 0;
}

/* Does it listen for requests to that address? One at most does: others would have collided. */
static bool takes(const struct av_cm_port *p, const uint8_t address[16], bool v6)
{
	bool any = av_cm_is_any(p->address) && (p->v6 == v6 || !p->afonly);

	return p->listens && (any || matches_cm_address(p, address, v6));
}

static bool is_permitted(uint16_t port)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];

	return port >= UNPRIVILEGED || syscall(SYS_capget, &head, caps) ||
	       caps[0].effective & 1u << CAP_NET_BIND_SERVICE;
}

/* --- binding; within a change ----------------------------------------------------- */

static void clear_cm_port(uint32_t row)
{
	atomic_store(&av_dir->cm_port[row].stamp, 0);
}

/* Rows behind the last one of this home are none of its any more. */
static void shorten(uint32_t home)
{
	uint32_t reach = reach_of(av_dir, home);
	struct av_cm_port p;

	while (reach > 0 && (!load_cm_port(&av_dir->cm_port[row_at(home, reach - 1)], &p) ||
			     home_of(&p) != home))
		reach--;
	atomic_store(&av_dir->cm_port[home].reach, reach);
}

/* The next row of a living process with the number of @like; those of dead ones are cleared. */
static int next_living(uint32_t *distance, const struct av_cm_port *like, struct av_cm_port *p)
{
	int row;

	if (*distance == 0)
		shorten(home_of(like));
	while ((row = next_row(distance, like, p)) >= 0 && !av_dir_proc_alive(p->proc))
		clear_cm_port((uint32_t)row);
	return row;
}

/* @self: its own row; -1: none yet */
static int check_cm_port_bind(const struct av_cm_port *p, int self)
{
	struct av_cm_port other;
	uint32_t distance = 0;
	int ret = 0, row;

	while (!ret && (row = next_living(&distance, p, &other)) >= 0)
		if (row != self)
			ret = collide(p, &other);
	return ret;
}

/* There are more numbers than rows. */
_Static_assert(CHOICES > ROWS, "a number to choose");

static void choose_cm_port(struct av_cm_port *p)
{
	uint32_t next = (uint32_t)(av_random() % CHOICES), distance;
	struct av_cm_port other;

	do {
		p->port = (uint16_t)(CHOICE_FIRST + next++ % CHOICES);
		distance = 0;
	} while (next_living(&distance, p, &other) >= 0);
}

/* The first free row from that home on, or -1. */
static int alloc_cm_port_row(uint32_t home)
{
	for (uint32_t i = 0; i < ROWS; i++) {
		uint32_t row = row_at(home, i);

		if (atomic_load(&av_dir->cm_port[row].stamp) == 0) {
			av_dir_will_use(&av_dir->cm_port[home].reach, i);
			return (int)row;
		}
	}
	return -1;
}

static void clear_dead_cm_ports(void)
{
	for (uint32_t i = 0; i < ROWS; i++)
		if (!av_dir_proc_alive(atomic_load(&av_dir->cm_port[i].proc)))
			clear_cm_port(i);
}

static int add_cm_port(struct av_cm_port *p)
{
	int ret = p->port ? check_cm_port_bind(p, -1) : 0, row;

	if (ret)
		return ret;
	if (p->port == 0)
		choose_cm_port(p);
	row = alloc_cm_port_row(home_of(p));
	if (row < 0) {
		clear_dead_cm_ports();
		row = alloc_cm_port_row(home_of(p));
	}
	if (row < 0)
		return -ENOSPC;
	p->proc = av_lock_self;
	p->listens = false;
	store_cm_port(&av_dir->cm_port[row], p);
	return row;
}

int av_cm_port_bind(struct av_cm_port *p)
{
	int ret = p->port == 0 || is_permitted(p->port) ? av_dir_change_begin() : -EACCES;

	if (ret)
		return ret;
	ret = add_cm_port(p);
	av_dir_change_end();
	return ret;
}

void av_cm_port_options(int handle, bool afonly, bool reuse)
{
	struct av_dir_cm_port *row = &av_dir->cm_port[handle];
	uint32_t others = atomic_load(&row->flags) & ~options(true, true);

	atomic_store(&row->flags, others | options(afonly, reuse));
}

int av_cm_port_listen(int handle)
{
	struct av_dir_cm_port *row = &av_dir->cm_port[handle];
	int ret = av_dir_change_begin();
	struct av_cm_port p;

	if (ret)
		return ret;
	(void)load_cm_port(row, &p);
	p.reuse = false;
	ret = check_cm_port_bind(&p, handle);
	if (ret == 0)
		atomic_store(&row->flags, (atomic_load(&row->flags) & ~(uint32_t)REUSE) | LISTENS);
	av_dir_change_end();
	return ret;
}

/* Needs no change: nobody else clears or takes a row of a process that lives. */
void av_cm_port_release(int handle)
{
	if (atomic_load(&av_dir->cm_port[handle].proc) == av_lock_self)
		clear_cm_port((uint32_t)handle);
}

void av_cm_ports_end(uint32_t proc)
{
	for (uint32_t i = 0; i < ROWS; i++)
		if (atomic_load(&av_dir->cm_port[i].proc) == proc)
			clear_cm_port(i);
}

/* --- looking up ------------------------------------------------------------------- */

bool av_cm_port_find(uint64_t netns, uint16_t ps, uint16_t port, const uint8_t address[16], bool v6,
		     struct av_cm_port *found)
{
	const struct av_cm_port like = {.netns = netns, .ps = ps, .port = port};
	uint32_t distance = 0;

	while (next_row(&distance, &like, found) >= 0)
		if (takes(found, address, v6) && av_dir_proc_alive(found->proc))
			return true;
	return false;
}

bool av_cm_port_next(uint32_t *at, struct av_cm_port *p)
{
	struct av_dir_view view;
	bool found = false;

	if (!av_dir_view(&view))
		return false;
	while (!found && *at < ROWS)
		found = load_cm_port(&view.dir->cm_port[(*at)++], p) &&
			av_dir_view_knows(&view, p->proc);
	if (found)
		p->pid = atomic_load(&view.dir->proc[AV_REF_SLOT(p->proc)].pid);
	av_dir_view_end(&view);
	return found;
}
