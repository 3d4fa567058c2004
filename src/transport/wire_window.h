/* SPDX-License-Identifier: MIT */
/*
 * How many bytes may be on their way to another host. The queue pairs of this process that send
 * there share one window, since their packets meet in one receive buffer. It begins with what a
 * buffer of Linux's default size takes. Each acknowledgement widens it: receivers empty their
 * buffers meanwhile. Lost packets halve it, and so does a notification of congestion. Nobody has to
 * be woken when it changes: a queue pair's share is at least a packet, whose acknowledgement lets
 * it go on.
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
 * Bytes of an answer that one READ may ask for, as long as losses keep the window narrow. Half of a
 * share, so that the answer to the next one shows what is missing of this one. Context: any thread
 */
uint32_t av_window_answer(const struct av_window *w);

/* An acknowledgement has come; packets have been lost. Context: any thread */
void av_window_acknowledged(struct av_window *w, uint32_t mtu);
void av_window_lost(struct av_window *w);

#endif
