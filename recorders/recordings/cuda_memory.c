/* CUDA: the device memory that the application has, by address. Follows cuda_api.c. */

enum { MEMORY_DEVICE, MEMORY_MANAGED, MEMORY_HOST, MEMORY_MAPPED, MEMORY_FOREIGN };

static const char *const memory_refused[] = {
    NULL, "managed memory", "host memory that the device reaches", "memory mapped with cuMemMap",
    "memory of another process",
};

typedef struct { CuPointer start; size_t size; int kind, device; } Memory;

static Memory *memories; /* by address */
static size_t memory_count, memory_room;
static Table handles;    /* texture and surface objects by handle */

static size_t memory_place(CuPointer at)
{
    size_t low = 0, high = memory_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (memories[middle].start <= at) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The memory that an address lies in; 0 where none is known. */
static int memory_of(CuPointer at, Memory *found)
{
    acquire(&lock);
    size_t place = memory_place(at);
    int known = place && at - memories[place - 1].start < memories[place - 1].size;
    if (known) *found = memories[place - 1];
    release(&lock);
    return known;
}

/* Where memory lies at all: most words are no address, and are told so without a search. */
static void memory_bounds(CuPointer *low, CuPointer *high)
{
    *low = *high = 0;
    acquire(&lock);
    if (memory_count) *low = memories[0].start;
    for (size_t i = 0; i < memory_count; i++)
        if (memories[i].start + memories[i].size > *high) *high = memories[i].start + memories[i].size;
    release(&lock);
}

static void memory_gone(CuPointer start)
{
    acquire(&lock);
    size_t place = memory_place(start);
    if (place && memories[place - 1].start == start) {
        for (size_t i = place; i < memory_count; i++) memories[i - 1] = memories[i];
        memory_count--;
    }
    release(&lock);
}

/* What lay there before was freed in a way that is not followed: with its context, or with its pool. */
static void memory_replaced(CuPointer start, size_t size)
{
    acquire(&lock);
    size_t left = 0;
    for (size_t i = 0; i < memory_count; i++)
        if (memories[i].start + memories[i].size <= start || memories[i].start >= start + size) memories[left++] = memories[i];
    memory_count = left;
    release(&lock);
}

static void memory_made(CuPointer start, size_t size, int kind)
{
    int device = 0;
    if (inside || !start || !size) return;
    memory_replaced(start, size);
    if (cu.cuCtxGetDevice) cu.cuCtxGetDevice(&device);
    acquire(&lock);
    if (memory_count == memory_room) {
        size_t room = memory_room ? 2 * memory_room : 256;
        Memory *more = malloc(room * sizeof *more);
        if (more) {
            if (memories) memcpy(more, memories, memory_count * sizeof *more);
            free(memories);
            memories = more;
            memory_room = room;
        }
    }
    if (memory_count < memory_room) {
        size_t place = memory_place(start);
        for (size_t i = memory_count; i > place; i--) memories[i] = memories[i - 1];
        memories[place] = (Memory){start, size, kind, device};
        memory_count++;
    }
    release(&lock);
}

#define ALLOCATED(KIND, SIZE) if (status == CU_SUCCESS && a) memory_made(*a, SIZE, KIND); return status

EXPORT CuStatus cuMemAlloc_v2(CuPointer *a, size_t b)
{ CuStatus status = CU_PASS(cuMemAlloc_v2, a, b); ALLOCATED(MEMORY_DEVICE, b); }
EXPORT CuStatus cuMemAllocPitch_v2(CuPointer *a, size_t *b, size_t c, size_t d, unsigned e)
{ CuStatus status = CU_PASS(cuMemAllocPitch_v2, a, b, c, d, e); ALLOCATED(MEMORY_DEVICE, *b * d); }
EXPORT CuStatus cuMemAllocManaged(CuPointer *a, size_t b, unsigned c)
{ CuStatus status = CU_PASS(cuMemAllocManaged, a, b, c); ALLOCATED(MEMORY_MANAGED, b); }
EXPORT CuStatus cuMemAllocAsync(CuPointer *a, size_t b, void *c)
{ CuStatus status = CU_PASS(cuMemAllocAsync, a, b, c); ALLOCATED(MEMORY_DEVICE, b); }
EXPORT CuStatus cuMemAllocAsync_ptsz(CuPointer *a, size_t b, void *c)
{ CuStatus status = CU_PASS(cuMemAllocAsync_ptsz, a, b, c); ALLOCATED(MEMORY_DEVICE, b); }
EXPORT CuStatus cuMemAllocFromPoolAsync(CuPointer *a, size_t b, void *c, void *d)
{ CuStatus status = CU_PASS(cuMemAllocFromPoolAsync, a, b, c, d); ALLOCATED(MEMORY_DEVICE, b); }
EXPORT CuStatus cuMemAllocFromPoolAsync_ptsz(CuPointer *a, size_t b, void *c, void *d)
{ CuStatus status = CU_PASS(cuMemAllocFromPoolAsync_ptsz, a, b, c, d); ALLOCATED(MEMORY_DEVICE, b); }
EXPORT CuStatus cuIpcOpenMemHandle_v2(CuPointer *a, CuIpcHandle b, unsigned c)
{ CuStatus status = CU_PASS(cuIpcOpenMemHandle_v2, a, b, c); ALLOCATED(MEMORY_FOREIGN, 1); }
EXPORT CuStatus cuMemMap(CuPointer a, size_t b, size_t c, uint64_t d, uint64_t e)
{ CuStatus status = CU_PASS(cuMemMap, a, b, c, d, e); CU_THEN(memory_made(a, b, MEMORY_MAPPED)); }

/* Before the call: what is free may be another thread's the moment that it returns. */
EXPORT CuStatus cuMemFree_v2(CuPointer a) { memory_gone(a); return CU_PASS(cuMemFree_v2, a); }
EXPORT CuStatus cuMemFreeAsync(CuPointer a, void *b) { memory_gone(a); return CU_PASS(cuMemFreeAsync, a, b); }
EXPORT CuStatus cuMemFreeAsync_ptsz(CuPointer a, void *b) { memory_gone(a); return CU_PASS(cuMemFreeAsync_ptsz, a, b); }
EXPORT CuStatus cuMemUnmap(CuPointer a, size_t b) { memory_gone(a); return CU_PASS(cuMemUnmap, a, b); }
EXPORT CuStatus cuIpcCloseMemHandle(CuPointer a) { memory_gone(a); return CU_PASS(cuIpcCloseMemHandle, a); }

static void host_made(void *memory, size_t size)
{
    CuPointer seen = 0;
    memory_made((CuPointer)(uintptr_t)memory, size, MEMORY_HOST);
    if (!inside && cu.cuMemHostGetDevicePointer_v2 && cu.cuMemHostGetDevicePointer_v2(&seen, memory, 0) == CU_SUCCESS &&
        seen != (CuPointer)(uintptr_t)memory)
        memory_made(seen, size, MEMORY_HOST);
}

EXPORT CuStatus cuMemAllocHost_v2(void **a, size_t b)
{ CuStatus status = CU_PASS(cuMemAllocHost_v2, a, b); CU_THEN(host_made(*a, b)); }
EXPORT CuStatus cuMemHostAlloc(void **a, size_t b, unsigned c)
{ CuStatus status = CU_PASS(cuMemHostAlloc, a, b, c); CU_THEN(host_made(*a, b)); }
EXPORT CuStatus cuMemHostRegister_v2(void *a, size_t b, unsigned c)
{ CuStatus status = CU_PASS(cuMemHostRegister_v2, a, b, c); CU_THEN(host_made(a, b)); }
EXPORT CuStatus cuMemHostUnregister(void *a)
{ memory_gone((CuPointer)(uintptr_t)a); return CU_PASS(cuMemHostUnregister, a); }
EXPORT CuStatus cuMemFreeHost(void *a)
{ memory_gone((CuPointer)(uintptr_t)a); return CU_PASS(cuMemFreeHost, a); }

/* ---- textures and surfaces ---- */

static char *const texture = "a texture", *const surface = "a surface";

static void handle_made(uint64_t handle, char *kind) { if (!inside) put(&handles, (void *)(uintptr_t)handle, kind); }

EXPORT CuStatus cuTexObjectCreate(uint64_t *a, const void *b, const void *c, const void *d)
{ CuStatus status = CU_PASS(cuTexObjectCreate, a, b, c, d); CU_THEN(handle_made(*a, texture)); }
EXPORT CuStatus cuSurfObjectCreate(uint64_t *a, const void *b)
{ CuStatus status = CU_PASS(cuSurfObjectCreate, a, b); CU_THEN(handle_made(*a, surface)); }
EXPORT CuStatus cuTexObjectDestroy(uint64_t a)
{ put(&handles, (void *)(uintptr_t)a, NULL); return CU_PASS(cuTexObjectDestroy, a); }
EXPORT CuStatus cuSurfObjectDestroy(uint64_t a)
{ put(&handles, (void *)(uintptr_t)a, NULL); return CU_PASS(cuSurfObjectDestroy, a); }
