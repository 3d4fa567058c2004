/* SPDX-License-Identifier: MIT */
/*
 * mpi_pair lat|bw BYTES COUNT: two ranks, as the OSU micro-benchmarks measure: the latency of a
 * message (us, half a round trip, median), or the bandwidth of windows of them (MB/s). compare.py
 * compiles it with mpicc.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 64

static int by_value(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;

	return (d > 0) - (d < 0);
}

static double latency_us(int rank, char *data, int bytes, int count)
{
	double *each = calloc((size_t)count, sizeof(*each)), median;

	if (!each)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (int i = -count / 10; i < count; i++) {
		double begin = MPI_Wtime();

		if (rank == 0)
			MPI_Send(data, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
		MPI_Recv(data, bytes, MPI_CHAR, !rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(data, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
		if (i >= 0)
			each[i] = (MPI_Wtime() - begin) / 2 * 1e6;
	}
	qsort(each, (size_t)count, sizeof(*each), by_value);
	median = each[count / 2];
	free(each);
	return median;
}

static void send_window(int rank, char *data, int bytes)
{
	MPI_Request all[WINDOW];

	for (int i = 0; i < WINDOW; i++)
		if (rank == 0)
			MPI_Isend(data, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &all[i]);
		else
			MPI_Irecv(data, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &all[i]);
	MPI_Waitall(WINDOW, all, MPI_STATUSES_IGNORE);
	if (rank == 0)
		MPI_Recv(data, 1, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else
		MPI_Send(data, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
}

static double bandwidth(int rank, char *data, int bytes, int count)
{
	double begin = 0;

	for (int i = -count / 10; i < count; i++) {
		if (i == 0)
			begin = MPI_Wtime();
		send_window(rank, data, bytes);
	}
	return (double)bytes * WINDOW * count / (MPI_Wtime() - begin) / 1e6;
}

int main(int argc, char **argv)
{
	int rank, bytes = argc == 4 ? atoi(argv[2]) : 0, count = argc == 4 ? atoi(argv[3]) : 0;
	double value;
	char *data;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	data = bytes > 0 ? malloc((size_t)bytes) : NULL;
	if (!data || count < 1)
		MPI_Abort(MPI_COMM_WORLD, 2);
	memset(data, rank, (size_t)bytes);
	value = strcmp(argv[1], "lat") ? bandwidth(rank, data, bytes, count)
				       : latency_us(rank, data, bytes, count);
	if (rank == 0)
		printf("%g\n", value);
	free(data);
	MPI_Finalize();
	return 0;
}
