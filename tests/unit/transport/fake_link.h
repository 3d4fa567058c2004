/* SPDX-License-Identifier: MIT */
/*
 * Two hosts and the link between them, in one process and one thread: what src/net, the timer
 * thread and the table of ports do for src/transport and src/cm, under the clock of
 * lib/turned_clock.h. A test that is linked with it has no socket, waits for nothing, and runs the
 * same each time.
 *
 * A packet arrives LINK_NS after it was sent, in order, unless the test says otherwise. Nothing
 * arrives, and no timer goes off, but in link_step().
 */
#ifndef TEST_FAKE_LINK_H
#define TEST_FAKE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "net/net.h"
#include "segment/segment.h"

#define LINK_HOSTS 2u
#define LINK_NS	   1000u

/* Host @host's address, in row 0 of the port of that number + 1 (struct av_seg_head). */
union ibv_gid link_gid(unsigned int host);

enum link_what {
	LINK_LOSE,
	LINK_DOUBLE, /* the second copy comes at once behind the first, */
	LINK_ECHO,   /* or after a time */
	LINK_SWAP,   /* it arrives behind the next one of its direction, if there is one */
	LINK_DELAY,  /* by a time */
	LINK_DAMAGE, /* in one byte, counted from the first one, or from behind */
};

/* What happens to a packet. Packets are numbered by the order in which both hosts send them. */
struct link_fault {
	unsigned int packet;
	enum link_what what;
	uint64_t delay_ns; /* LINK_DELAY, LINK_ECHO */
	int byte;	   /* LINK_DAMAGE: -1 is the last one */
};

/* A packet as it is sent, before anything happens to it. */
struct link_packet {
	unsigned int number;
	unsigned int from; /* host */
	const struct av_net_packet *net;
	const struct link_fault *fault; /* NULL: it arrives */
};

/* A packet that arrives, intact. */
struct link_arrival {
	unsigned int from;
	const struct av_net_packet *net;
};

/* What goes off beside the timers of queue pairs. NULL: nothing does */
struct link_alarm {
	uint64_t (*due)(void); /* when; UINT64_MAX: never */
	void (*look)(void);
};

struct link_setting {
	const struct link_fault *faults;
	unsigned int fault_count;
	bool cut[LINK_HOSTS];	      /* what that host sends is lost */
	uint64_t slow_ns[LINK_HOSTS]; /* or takes so much longer */
	bool moved[LINK_HOSTS]; /* who manages hears nothing until that address is attended anew */
	bool (*loses)(const struct link_packet *p); /* and what this says; NULL: nothing */
	bool each;	   /* arrivals are settled one by one; else those of one moment together */
	unsigned int room; /* packets that an interface takes at once; 0: any number */
	int refusal;	   /* what interfaces say of packets, -errno; 0: they take them */
	bool congested;	   /* all packets are marked so on their way */
	/*
	 * The hosts are two processes of one host, with these contexts; NULL: two hosts. Each
	 * process hears calls of the other (av_seg_call()) after a time.
	 */
	struct av_seg *process[LINK_HOSTS];
	uint64_t call_ns[LINK_HOSTS];
	void (*sent)(const struct link_packet *p);
	void (*arrives)(const struct link_arrival *a);
	struct link_alarm alarm;
	/* Processes of one directory instead of hosts: what av_net_pass() calls them; 0: hosts */
	uint32_t proc[LINK_HOSTS];
	unsigned int full; /* so many packets that are passed find no room */
};

/* Called when a port is forced down, or up again. NULL: nobody */
extern void (*link_on_port)(bool down);

/* Begin anew: no packet is under way, no queue pair is watched. @setting is borrowed. */
void link_begin(struct link_setting *setting);

/* The host, or process, whose code runs: while a packet of management arrives, who gets it. */
extern unsigned int link_here;

/* From now on @host's code runs. */
void link_be(unsigned int host);

/* Call @f in link_step() at that moment. One at a time. */
void link_call_at(uint64_t ns, void (*f)(void));

/*
 * Turn the clock to the next moment at which something happens, and let it happen: arrivals, then
 * the call of link_call_at(), then timers, then calls of processes. Return: false: nothing will
 * ever happen
 */
bool link_step(void);

/*
 * From here on, the process of that host runs: the other's memory is another process's. LINK_HOSTS:
 * whichever
 */
void link_run_as(unsigned int host);

/* Packets that have been sent, and those that are on their way. */
unsigned int link_sent(void);
unsigned int link_under_way(void);

/* Forget the timers of a segment that ends. */
void link_forget(const struct av_seg *seg);

#endif
