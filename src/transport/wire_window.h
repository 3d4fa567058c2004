/* SPDX-License-Identifier: MIT */
/*
 * How many bytes may be on their way to another host. The queue pairs of this process that send
 * there share one window, since their packets meet in one receive buffer. It begins with what a
 * buffer of Linux's default size takes. Each acknowledgement widens it: receivers empty their
 * buffers meanwhile. Lost packets halve it, and so does a notification of congestion. Nobody has to
 * be woken when it changes: a queue pair may always send a packet, if not at once, and its
 * acknowledgement lets it go on.
 */
#ifndef AV_TRANSPORT_WIRE_WINDOW_H
#define AV_TRANSPORT_WIRE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct av_window;

/*
 * The window to that GID, for one more queue pair. Context: takes a lock of its own, allocates.
 * Return: NULL: no memory. av_window_leave() gives it back; NULL is allowed.
 */
struct av_window *av_window_join(const uint8_t dst[16]);
void av_window_leave(struct av_window *w);

/*
 * A queue pair begins to send there, or has no packets under way any more. The caller remembers
 * which, and says it once. Context: any thread.
 */
void av_window_active(struct av_window *w, bool active);

/* Bytes that a queue pair may have under way. Context: any thread */
uint32_t av_window_share(const struct av_window *w);

/*
 * While losses keep the window narrow; in a wide one there is no limit, and no rest. Context: any
 * thread
 *
 * av_window_answer(): bytes that one READ may ask for. Half of a share, so that the answer to the
 * next one shows what is missing of this one.
 *
 * av_window_rest(): nanoseconds for which a queue pair sends nothing when it has been answered. A
 * share that is less than a packet is one packet in a longer time: @answer_ns, which the answer
 * took, for each share of it; but no longer than a long queue is.
 */
uint32_t av_window_answer(const struct av_window *w);
uint64_t av_window_rest(const struct av_window *w, uint32_t mtu, uint64_t answer_ns);

/* An acknowledgement has come by now; packets have been lost. Context: any thread */
void av_window_acknowledged(struct av_window *w, uint32_t mtu, uint64_t now_ns);
void av_window_lost(struct av_window *w);

/* Has a packet of any queue pair been acknowledged since then? Context: any thread */
bool av_window_heard(const struct av_window *w, uint64_t since_ns);

#endif
