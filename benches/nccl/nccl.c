/* A stand-in for libnccl.so.2 over MPI, for the memory of the stand-in for CUDA beside it. As in NCCL, sends and receives of
 * a group begin at its end, sends match receives of the same length alone, and all ranks must bring one id. */
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { char b[128]; } Id;
typedef struct { int peer, sends; char *at; size_t n; } Op;
#define BIT (1ULL << 62)
enum { OK = 0, INVALID = 4, USAGE = 5 };
static MPI_Comm comm;
static Op ops[4096];
static int count, open;

int ncclGetUniqueId(Id *id) {
    for (int i = 0; i < 128; i++) id->b[i] = (char)(i * 7 + getpid());
    return OK;
}
int ncclCommInitRank(void **made, int n, Id id, int rank) {
    int size, own;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &own);
    char *all = malloc(128 * size);
    MPI_Allgather(id.b, 128, MPI_BYTE, all, 128, MPI_BYTE, comm);
    int same = size == n && own == rank;
    for (int i = 0; i < size; i++) same &= !memcmp(all + 128 * i, id.b, 128);
    free(all);
    *made = &comm;
    return same ? OK : INVALID;
}
int ncclCommAbort(void *c) { return OK; }
int ncclGroupStart(void) { open++; return OK; }
static int put(const void *at, size_t n, int peer, int sends) {
    uint64_t p = (uint64_t)at;
    if (!(p & BIT) || !n || !open || count == 4096) return USAGE;
    ops[count++] = (Op){peer, sends, (char *)(p & ~BIT), n};
    return OK;
}
int ncclSend(const void *at, size_t n, int type, int peer, void *c, void *s) { return put(at, n, peer, 1); }
int ncclRecv(void *at, size_t n, int type, int peer, void *c, void *s) { return put(at, n, peer, 0); }
int ncclGroupEnd(void) {
    MPI_Request all[4096];
    MPI_Status said[4096];
    if (--open) return OK;
    for (int i = 0; i < count; i++) {
        Op o = ops[i];
        if (o.sends) MPI_Isend(o.at, (int)o.n, MPI_BYTE, o.peer, 0, comm, &all[i]);
        else MPI_Irecv(o.at, (int)o.n, MPI_BYTE, o.peer, 0, comm, &all[i]);
    }
    MPI_Waitall(count, all, said);
    int whole = 1;
    for (int i = 0; i < count; i++) {
        int n = 0;
        if (!ops[i].sends) { MPI_Get_count(&said[i], MPI_BYTE, &n); whole &= (size_t)n == ops[i].n; }
    }
    count = 0;
    return whole ? OK : INVALID;
}
const char *ncclGetErrorString(int e) { return "an error of the stand-in"; }
