/* A stand-in for libcuda.so.1: memory of a "GPU" is the host's, at addresses that the host cannot read, and every copy is
 * done at once. It has the functions that formwork's exchange calls and no others, so that the exchange runs without a
 * GPU. STAND_IN_GPUS is how many there are (4 when absent). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int R;
#define BIT (1ULL << 62)
static void *host(uint64_t p) {
    if (!(p & BIT)) abort();
    return (void *)(p & ~BIT);
}
static int gpus(void) {
    const char *given = getenv("STAND_IN_GPUS");
    return given ? atoi(given) : 4;
}

R cuInit(unsigned f) { return 0; }
R cuDeviceGetCount(int *n) { *n = gpus(); return 0; }
R cuDeviceGet(int *d, int n) { *d = n; return n < gpus() ? 0 : 101; }
R cuDeviceGetAttribute(int *v, int a, int d) { *v = 0; return 0; }
R cuDeviceGetUuid_v2(char *id, int d) { memset(id, 0, 16); id[0] = 1 + d; return 0; }
R cuDeviceGetUuid(char *id, int d) { return cuDeviceGetUuid_v2(id, d); }
R cuDevicePrimaryCtxRetain(void **c, int d) { *c = (void *)(intptr_t)(16 + d); return 0; }
R cuDevicePrimaryCtxRelease_v2(int d) { return 0; }
R cuCtxSetCurrent(void *c) { return 0; }
R cuCtxGetCurrent(void **c) { *c = 0; return 0; }
R cuCtxSynchronize(void) { return 0; }
R cuStreamCreate(void **s, unsigned f) { *s = (void *)16; return 0; }
R cuStreamDestroy_v2(void *s) { return 0; }
R cuStreamSynchronize(void *s) { return 0; }
R cuStreamWaitEvent(void *s, void *e, unsigned f) { return 0; }
R cuEventCreate(void **e, unsigned f) { *e = (void *)16; return 0; }
R cuEventRecord(void *e, void *s) { return 0; }
R cuEventSynchronize(void *e) { return 0; }
R cuEventDestroy_v2(void *e) { return 0; }
R cuMemAlloc_v2(uint64_t *p, size_t n) {
    if (!n) return 1;
    *p = (uint64_t)malloc(n) | BIT;
    return 0;
}
R cuMemAllocAsync(uint64_t *p, size_t n, void *s) { return cuMemAlloc_v2(p, n); }
R cuMemFree_v2(uint64_t p) { free(host(p)); return 0; }
R cuMemFreeAsync(uint64_t p, void *s) { return cuMemFree_v2(p); }
R cuMemsetD8Async(uint64_t p, unsigned char b, size_t n, void *s) { memset(host(p), b, n); return 0; }
R cuMemcpyHtoDAsync_v2(uint64_t p, const void *from, size_t n, void *s) { memcpy(host(p), from, n); return 0; }
R cuMemcpyDtoHAsync_v2(void *to, uint64_t p, size_t n, void *s) { memcpy(to, host(p), n); return 0; }
R cuGetErrorName(int e, const char **t) { *t = "an error of the stand-in"; return 0; }
R cuGetErrorString(int e, const char **t) { *t = "an error of the stand-in"; return 0; }
