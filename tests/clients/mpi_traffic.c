/* SPDX-License-Identifier: MIT */
/*
 * A program of MPI, for mpi.py: messages around a ring in each protocol that implementations have
 * (by size), collective operations, and one-sided ones. Each byte is checked; the first that is
 * wrong ends all ranks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <mpi.h>

#define ROUNDS 3
#define ADDS   50

static int rank, ranks;

static void check(int good, const char *what, long at)
{
	if (good)
		return;
	fprintf(stderr, "rank %d: %s at %ld\n", rank, what, at);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned char byte_of(int owner, int round, long at)
{
	return (unsigned char)(at * 31 + at / 251 + owner * 7 + round * 13 + 1);
}

static void fill(unsigned char *buffer, long bytes, int owner, int round)
{
	for (long i = 0; i < bytes; i++)
		buffer[i] = byte_of(owner, round, i);
}

static void compare(const unsigned char *buffer, long bytes, int owner, int round, const char *what)
{
	for (long i = 0; i < bytes; i++)
		check(buffer[i] == byte_of(owner, round, i), what, i);
}

/* To the next rank and from the one before. */
static void ring(long bytes)
{
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, count;
	unsigned char *out = malloc((size_t)bytes + 1), *in = calloc(1, (size_t)bytes + 1);
	MPI_Status status;

	for (int round = 0; round < ROUNDS; round++) {
		fill(out, bytes, rank, round);
		MPI_Sendrecv(out, (int)bytes, MPI_BYTE, next, round, in, (int)bytes, MPI_BYTE,
			     before, round, MPI_COMM_WORLD, &status);
		MPI_Get_count(&status, MPI_BYTE, &count);
		check(count == bytes, "length of a message", count);
		compare(in, bytes, before, round, "message");
	}
	free(out);
	free(in);
}

static void collectives(void)
{
	int sum = 0, mine = rank + 1, all[64] = {0};

	MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	check(sum == ranks * (ranks + 1) / 2, "sum", sum);
	MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
	for (int i = 0; i < ranks; i++)
		check(all[i] == i + 1, "gathered", i);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Each puts into the next one's window and gets it back. */
static void put_and_get(long bytes)
{
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	unsigned char *window, *copy = calloc(1, (size_t)bytes);
	MPI_Win win;

	MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
	fill(copy, bytes, rank, 0);
	MPI_Win_fence(0, win);
	MPI_Put(copy, (int)bytes, MPI_BYTE, next, 0, (int)bytes, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	compare(window, bytes, before, 0, "what was put");
	fill(copy, bytes, 99, 0);
	MPI_Win_fence(0, win);
	MPI_Get(copy, (int)bytes, MPI_BYTE, next, 0, (int)bytes, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	compare(copy, bytes, rank, 0, "what was got");
	MPI_Win_free(&win);
	free(copy);
}

/* All ranks count at rank 0. */
static void count_together(void)
{
	long one = 1, before = -1, zero = 0, *window;
	MPI_Win win;

	MPI_Win_allocate(sizeof(*window), sizeof(*window), MPI_INFO_NULL, MPI_COMM_WORLD, &window,
			 &win);
	*window = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, win);
	for (int i = 0; i < ADDS; i++) {
		MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 0, MPI_SUM, win);
		MPI_Win_flush(0, win);
		check(before >= i && before < ADDS * ranks, "count", before);
	}
	MPI_Win_unlock_all(win);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, win);
	MPI_Fetch_and_op(&zero, &before, MPI_LONG, 0, 0, MPI_NO_OP, win);
	MPI_Win_flush(0, win);
	MPI_Win_unlock_all(win);
	check(before == (long)ADDS * ranks, "count in the end", before);
	MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
	static const long sizes[] = {0, 1, 8, 100, 1000, 4096, 8193, 65536, 1000003};

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		ring(sizes[i]);
	collectives();
	if (argc > 1) { /* one-sided, too */
		put_and_get(8);
		put_and_get(100000);
		count_together();
	}
	printf("rank %d of %d: all correct\n", rank, ranks);
	return MPI_Finalize();
}
