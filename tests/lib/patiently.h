/* SPDX-License-Identifier: MIT */
/*
 * Calls that wait for another thread or process, for AV_PEER_TIMEOUT_NS at most. On a busy machine
 * that one may be held up for longer; then the call gives up, and has another try.
 */
#ifndef TEST_PATIENTLY_H
#define TEST_PATIENTLY_H

#include "base/clock.h"
#include "lib/wait.h"

/*
 * What @call returns. It is made again as long as it returns @gave_up and has waited before: one
 * that gives up at once has not found anybody whom it waits for.
 */
#define PATIENTLY(call, gave_up)                                                                 \
	({                                                                                       \
		typeof(call) ret_;                                                               \
		uint64_t begin_;                                                                 \
		do {                                                                             \
			begin_ = wait_clock_ms();                                                \
			ret_ = (call);                                                           \
		} while (ret_ == (gave_up) &&                                                    \
			 wait_clock_ms() - begin_ >= AV_PEER_TIMEOUT_NS / 2000000); /* a half */ \
		ret_;                                                                            \
	})

#endif
