// A CUDA driver whose device is the emulation: enough of libcuda for the library to run end to end without a GPU.
//
// Device memory is host memory filled with NaN; work is done when it is asked for. Modules are not read: kernels are
// found by name among those compiled in. The environment makes it misbehave: STANDIN_NO_DEVICE, STANDIN_VERSION,
// STANDIN_CAPABILITY, STANDIN_MEMORY (bytes), STANDIN_COHERENT (copies from the host are late, and find nothing unless waited
// for).
//
// A stream that is captured keeps kernels, fills and copies within the device, and a graph does them again; whatever else
// it is given breaks the capture. A graph whose memory was freed refuses to run.
#include "emulation.h"
#include "driver.h"
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <string>
#include <vector>

typedef int Result;
typedef void* Handle;
typedef uintptr_t Pointer;
enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_IMAGE = 200, INVALID_CONTEXT = 201, UNSUPPORTED_PTX = 222, NOT_FOUND = 500, UNSUPPORTED = 900, INVALIDATED = 901 };

// Memory that was given out; its number tells it from what lay there before.
struct Allocation { size_t bytes; u64 number; };
// Work of a graph: what it does, and the allocations that it was given addresses of, with their numbers.
struct Node {
    std::function<void()> work;
    std::vector<std::pair<Pointer, u64>> needs;
};
typedef std::vector<Node> Graph;

static const size_t HUGE = (size_t)1 << 30;
static std::mutex lock;
// Never destroyed: threads may outlive `main`.
static auto& calls = *new std::map<std::string, u64>;
static auto& allocations = *new std::map<Pointer, Allocation>;
static u64 made;  // allocations so far
static size_t used;
static Handle captured;  // the stream that is captured
static bool idle;        // whether kernels do nothing
static int relu;         // how ReLU of cuBLASLt's algorithms treats NaN, from now on
static bool late;        // whether libraries refuse to do what they planned
static int want;         // of what there is no memory: LARGE pieces, what LIBRARIES need for themselves
enum { LARGE = 1, LIBRARIES = 2 };
static std::atomic<unsigned> delay;  // microseconds that a call takes to get to the device, for other threads to overtake it
static bool broken;      // whether it was given what no graph can hold
static auto& recording = *new std::unique_ptr<Graph>;

static i64 number(const char* name, i64 fallback) {
    const char* text = getenv(name);
    return text ? atoll(text) : fallback;
}
static size_t total() { return (size_t)number("STANDIN_MEMORY", 8ll << 30); }
#define COUNT if (delay) usleep(delay); std::lock_guard<std::mutex> held(lock); ++calls[__func__]
// What a captured stream does not take.
#define LIVE(stream) if ((stream) == captured) { broken = true; return UNSUPPORTED; }

// Start of the allocation that `at` lies in, or 0.
static Pointer allocation(Pointer at) {
    auto next = allocations.upper_bound(at);
    if (next == allocations.begin()) return 0;
    --next;
    return at < next->first + next->second.bytes ? next->first : 0;
}

static bool within(Pointer at, size_t bytes) {
    auto next = allocations.upper_bound(at);
    if (next == allocations.begin()) return false;
    --next;
    return at + bytes <= next->first + next->second.bytes;
}

// The allocations that words of `data` are addresses of.
static std::vector<std::pair<Pointer, u64>> addresses(const void* data, size_t bytes) {
    std::vector<std::pair<Pointer, u64>> found;
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        Pointer word;
        memcpy(&word, (const char*)data + i, 8);
        if (Pointer start = allocation(word)) found.push_back({start, allocations[start].number});
    }
    return found;
}

// Copies from the host that were not waited for yet.
struct Late { Pointer to; const void* from; size_t bytes; };
static auto& late_copies = *new std::vector<Late>;

static void submit(Handle stream, std::function<void()> work, const void* data, size_t bytes) {
    late_copies.clear();
    if (stream != captured) return work();
    recording->push_back({std::move(work), addresses(data, bytes)});
}
void standin_submit(void* stream, std::function<void()> work, const uintptr_t* at, size_t count) {
    std::lock_guard<std::mutex> held(lock);
    submit(stream, std::move(work), at, count * 8);
}

extern "C" {
// ---- what tests ask
u64 standin_calls(const char* name) { std::lock_guard<std::mutex> held(lock); return calls[name]; }
// Every name and count, as text.
const char* standin_all_calls() {
    std::lock_guard<std::mutex> held(lock);
    static auto& text = *new std::string;
    text.clear();
    for (auto& call : calls) text += call.first + " " + std::to_string(call.second) + "\n";
    return text.c_str();
}
void standin_count(const char* name) { std::lock_guard<std::mutex> held(lock); ++calls[name]; }
void standin_idle(int on) { std::lock_guard<std::mutex> held(lock); idle = on != 0; }
void standin_delay(unsigned microseconds) { delay = microseconds; }
void standin_relu(int mode) { std::lock_guard<std::mutex> held(lock); relu = mode; }
void standin_late(int on) { std::lock_guard<std::mutex> held(lock); late = on != 0; }
void standin_want(int of) { std::lock_guard<std::mutex> held(lock); want = of; }
int standin_wants_memory() { std::lock_guard<std::mutex> held(lock); return want & LIBRARIES; }
int standin_refuses() { std::lock_guard<std::mutex> held(lock); return late; }
int standin_relu_mode() { std::lock_guard<std::mutex> held(lock); return relu; }
u64 standin_blocks() { std::lock_guard<std::mutex> held(lock); return allocations.size(); }
u64 standin_bytes() { std::lock_guard<std::mutex> held(lock); return used; }
size_t standin_args(const char* name) { auto* k = emulation::find(name); return k ? k->args : 0; }
// Whether `bytes` at `at` lie within one allocation.
int standin_within(Pointer at, size_t bytes) { std::lock_guard<std::mutex> held(lock); return within(at, bytes); }

// ---- device
Result cuInit(unsigned) { COUNT; return getenv("STANDIN_NO_DEVICE") ? NO_DEVICE : SUCCESS; }
Result cuDriverGetVersion(int* v) { *v = (int)number("STANDIN_VERSION", 13000); return SUCCESS; }
Result cuDeviceGetCount(int* n) { *n = 1; return SUCCESS; }
Result cuDeviceGet(int* d, int i) { *d = i; return i == 0 ? SUCCESS : 101; }
Result cuDeviceGetName(char* name, int n, int) { strncpy(name, "stand-in", n); return SUCCESS; }
Result cuDeviceTotalMem_v2(size_t* bytes, int) { *bytes = total(); return SUCCESS; }
Result cuDeviceGetAttribute(int* v, int attribute, int) {
    i64 capability = number("STANDIN_CAPABILITY", 80);
    switch (attribute) {
        case 16: *v = 2; break;                      // multiprocessors
        case 75: *v = (int)(capability / 10); break;
        case 76: *v = (int)(capability % 10); break;
        case 100: *v = getenv("STANDIN_COHERENT") != nullptr; break;
        case 115: *v = 1; break;                     // memory pools
        default: *v = 0;
    }
    return SUCCESS;
}
Result cuDevicePrimaryCtxRetain(Handle* c, int) { *c = (Handle)1; return SUCCESS; }
Result cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
// A thread has none before it is given one.
static thread_local Handle context;
#define BOUND if (!context) return INVALID_CONTEXT;
Result cuCtxSetCurrent(Handle c) { context = c; return SUCCESS; }
Result cuCtxGetCurrent(Handle* c) { *c = context; return SUCCESS; }
int standin_bound() { return context != nullptr; }
Result cuCtxSynchronize() { COUNT; LIVE(captured ? captured : (Handle)1) return SUCCESS; }
Result cuGetErrorName(Result r, const char** s) {
    *s = r == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : r == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR";
    return SUCCESS;
}
Result cuGetErrorString(Result r, const char** s) {
    *s = r == OUT_OF_MEMORY ? "out of memory" : r == NO_DEVICE ? "no CUDA-capable device is detected" : "error";
    return SUCCESS;
}

// ---- streams and events
Result cuStreamCreate(Handle* s, unsigned) {
    COUNT;
    *s = (Handle)(0x1000 + calls[__func__]);
    return SUCCESS;
}
Result cuStreamDestroy_v2(Handle) { return SUCCESS; }
Result cuStreamSynchronize(Handle s) {
    COUNT;
    LIVE(s)
    for (auto& copy : late_copies) memcpy((void*)copy.to, copy.from, copy.bytes);
    late_copies.clear();
    return SUCCESS;
}
Result cuStreamBeginCapture_v2(Handle s, int) {
    COUNT;
    LIVE(s)
    captured = s;
    broken = false;
    recording.reset(new Graph);
    return SUCCESS;
}
Result cuStreamEndCapture(Handle s, Graph** graph) {
    COUNT;
    *graph = nullptr;
    if (s != captured) return INVALID_VALUE;
    captured = nullptr;
    if (broken) return INVALIDATED;
    *graph = recording.release();
    return SUCCESS;
}
Result cuGraphInstantiateWithFlags(Graph** exec, Graph* graph, unsigned long long) { COUNT; *exec = new Graph(*graph); return SUCCESS; }
Result cuGraphDestroy(Graph* graph) { COUNT; delete graph; return SUCCESS; }
Result cuGraphExecDestroy(Graph* exec) { COUNT; delete exec; return SUCCESS; }
Result cuGraphLaunch(Graph* exec, Handle s) {
    COUNT;
    LIVE(s)
    for (auto& node : *exec) for (auto& [at, number] : node.needs) {
        auto found = allocations.find(at);
        if (found == allocations.end() || found->second.number != number) return INVALID_VALUE;
    }
    for (auto& node : *exec) node.work();
    return SUCCESS;
}
Result cuStreamWaitEvent(Handle, Handle, unsigned) { return SUCCESS; }
Result cuEventCreate(Handle* e, unsigned) { *e = (Handle)3; return SUCCESS; }
Result cuEventDestroy_v2(Handle) { return SUCCESS; }
Result cuEventRecord(Handle, Handle) { return SUCCESS; }
Result cuEventSynchronize(Handle) { return SUCCESS; }

// ---- memory
Result cuMemGetInfo_v2(size_t* free, size_t* all) { std::lock_guard<std::mutex> held(lock); *all = total(); *free = *all > used ? *all - used : 0; return SUCCESS; }
Result cuMemAllocAsync(Pointer* at, size_t bytes, Handle s) {
    COUNT;
    LIVE(s)
    if (bytes == 0) return INVALID_VALUE;
    if (used + bytes > total() || ((want & LARGE) && bytes >= 16 << 20)) return OUT_OF_MEMORY;
    // Only what is touched of a huge piece is there, and reads as 0.
    if (bytes >= HUGE) {
        void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return OUT_OF_MEMORY;
        *at = (Pointer)memory;
        allocations[*at] = {bytes, ++made};
        used += bytes;
        return SUCCESS;
    }
    void* memory = nullptr;  // not a byte more than asked for, so that AddressSanitizer sees the end
    if (posix_memalign(&memory, 256, bytes)) return OUT_OF_MEMORY;
    memset(memory, 0xff, bytes);
    *at = (Pointer)memory;
    allocations[*at] = {bytes, ++made};
    used += bytes;
    return SUCCESS;
}
Result cuMemFreeAsync(Pointer at, Handle s) {
    COUNT;
    LIVE(s)
    auto found = allocations.find(at);
    if (found == allocations.end()) return INVALID_VALUE;
    size_t bytes = found->second.bytes;
    used -= bytes;
    allocations.erase(found);
    if (bytes >= HUGE) munmap((void*)at, bytes); else free((void*)at);
    return SUCCESS;
}
Result cuMemcpyHtoDAsync_v2(Pointer to, const void* from, size_t n, Handle s) {
    COUNT;
    LIVE(s)
    if (!within(to, n)) return INVALID_VALUE;
    if (getenv("STANDIN_COHERENT")) {
        memset((void*)to, 0xff, n);
        late_copies.push_back({to, from, n});
    } else {
        memcpy((void*)to, from, n);
    }
    return SUCCESS;
}
Result cuMemcpyDtoHAsync_v2(void* to, Pointer from, size_t n, Handle s) {
    COUNT;
    LIVE(s)
    if (!within(from, n)) return INVALID_VALUE;
    memcpy(to, (void*)from, n);
    return SUCCESS;
}
Result cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t n, Handle s) {
    COUNT;
    if (!within(to, n) || !within(from, n)) return INVALID_VALUE;
    Pointer both[2] = {to, from};
    submit(s, [=] { memcpy((void*)to, (void*)from, n); }, both, sizeof both);
    return SUCCESS;
}
Result cuMemsetD8Async(Pointer at, unsigned char v, size_t n, Handle s) {
    COUNT;
    if (!within(at, n)) return INVALID_VALUE;
    if (n >= HUGE && v == 0) return SUCCESS;  // as it is
    submit(s, [=] { memset((void*)at, v, n); }, &at, sizeof at);
    return SUCCESS;
}
Result cuMemHostAlloc(void** at, size_t bytes, unsigned) { COUNT; *at = malloc(bytes); return *at ? SUCCESS : OUT_OF_MEMORY; }
Result cuMemFreeHost(void* at) { COUNT; free(at); return SUCCESS; }
Result cuDeviceGetDefaultMemPool(Handle* p, int) { *p = (Handle)4; return SUCCESS; }
Result cuMemPoolSetAttribute(Handle, int, void*) { return SUCCESS; }

// ---- kernels
Result cuModuleLoadData(Handle* m, const void* image) {
    COUNT;
    BOUND
    *m = (Handle)5;
    if (!image) return INVALID_VALUE;
    // Machine code is read up to the driver's own major version.
    if (memcmp(image, "\177ELF ", 5) == 0 && atoi((const char*)image + 5) > number("STANDIN_VERSION", 13000) / 1000) return INVALID_IMAGE;
    // PTX is read up to the version of the driver's own compiler: 8.8 came with CUDA 12.9.
    bool newer = memcmp(image, ".version 8.8", 12) == 0;
    return newer && number("STANDIN_VERSION", 13000) < 12090 ? UNSUPPORTED_PTX : SUCCESS;
}
Result cuModuleLoad(Handle* m, const char*) { *m = (Handle)5; return SUCCESS; }
Result cuModuleUnload(Handle) { return SUCCESS; }
Result cuModuleGetFunction(Handle* f, Handle, const char* name) { BOUND *f = emulation::find(name); return *f ? SUCCESS : NOT_FOUND; }
Result cuFuncGetParamInfo(Handle f, size_t i, size_t* offset, size_t* size) {
    BOUND
    if (i != 0) return INVALID_VALUE;
    *offset = 0;
    *size = ((emulation::Kernel*)f)->args;
    return SUCCESS;
}
Result cuFuncGetAttribute(int* v, int, Handle) { *v = 0; return SUCCESS; }
Result cuFuncSetAttribute(Handle, int, int) { return SUCCESS; }
Result cuLaunchKernel(Handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned,
                      Handle s, void** args, void**) {
    COUNT;
    // What no GPU launches.
    if (gx == 0 || gy == 0 || gz == 0 || gx > 0x7fffffffu || gy > 65535 || gz > 65535 || bx * by * bz > 1024) return INVALID_VALUE;
    auto* kernel = (emulation::Kernel*)f;
    std::vector<char> copy((char*)args[0], (char*)args[0] + kernel->args);
    submit(s, [=] {
        ++calls[kernel->name];
        if (!idle) emulation::launch(*kernel, copy.data(), {gx, gy, gz}, {bx, by, bz});
    }, args[0], kernel->args);
    return SUCCESS;
}
}
