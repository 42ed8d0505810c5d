// Runs kernels: fibers for the threads of a block, and the order in which they take turns.
#include "emulation.h"
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace emulation {
Index thread_index, block_index, block_size, grid_size;

// -------------------------------------------------------------------------------------------------------------------
// Registry

static Kernel* kernels;
Kernel::Kernel(const char* name, size_t args, unsigned threads, Range shared, void (*run)(const void*))
    : name(name), args(args), threads(threads), shared(shared), run(run), next(kernels) { kernels = this; }
Kernel* find(const char* name) {
    for (Kernel* k = kernels; k; k = k->next) if (!strcmp(k->name, name)) return k;
    return nullptr;
}

// -------------------------------------------------------------------------------------------------------------------
// Fibers

enum State { READY, AT_WARP, AT_BLOCK, DONE };
struct Copy {
    void* to;
    const void* from;
    size_t bytes;
};
struct Fiber {
#ifdef __x86_64__
    void* stack_pointer;
#else
    ucontext_t context;
#endif
    char* stack;
    State state;
    u64 slot;
    std::vector<Copy> copies;
};
static const size_t STACK = 256 << 10;
// Never destroyed: threads may outlive `main`.
static auto& fibers = *new std::vector<Fiber>;
static unsigned current, count;
static const Kernel* kernel;
static const void* arguments;

// Not ucontext's switch, where there is another: it asks the kernel for signals each time, and AddressSanitizer clears what it
// knows of a whole stack, which took nine tenths of the time.
#ifdef __x86_64__
extern "C" void emulation_switch(void** from, void* to);
asm(".globl emulation_switch\n.hidden emulation_switch\nemulation_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
static void* scheduler;
static void leave() { emulation_switch(&fibers[current].stack_pointer, scheduler); }
static void resume() { emulation_switch(&scheduler, fibers[current].stack_pointer); }
static void body();
static void prepare(Fiber& f) {
    void** top = (void**)(((uintptr_t)f.stack + STACK) & ~(uintptr_t)15) - 2;
    *top = (void*)body;
    f.stack_pointer = top - 6;
}
#else
static ucontext_t scheduler;
static void leave() { swapcontext(&fibers[current].context, &scheduler); }
static void resume() { swapcontext(&scheduler, &fibers[current].context); }
static void body();
static void prepare(Fiber& f) {
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack;
    f.context.uc_stack.ss_size = STACK;
    f.context.uc_link = &scheduler;
    makecontext(&f.context, body, 0);
}
#endif

[[noreturn]] static void fail(const char* what);
static void body() {
    kernel->run(arguments);
    if (!fibers[current].copies.empty()) fail("copies on the way at the end");
    fibers[current].state = DONE;
    for (;;) leave();
}

[[noreturn]] static void fail(const char* what) {
    fprintf(stderr, "emulation: %s: %s in block (%u, %u, %u)\n", kernel->name, what, block_index.x, block_index.y, block_index.z);
    abort();
}

static void wait_as(State state) {
    fibers[current].state = state;
    leave();
}
void block_barrier() { wait_as(AT_BLOCK); }
void warp_barrier() { wait_as(AT_WARP); }
void put(u64 bits) { fibers[current].slot = bits; }
u64 peek(unsigned lane) { return fibers[current / 32 * 32 + lane].slot; }
void aligned(const void* at) {
    if ((uintptr_t)at % 16) __builtin_trap();
}
void copy_later(void* to, const void* from, size_t bytes, bool inside) {
    // Also where nothing is read: no document says that such an address need not be aligned.
    if (((uintptr_t)to | (uintptr_t)from) % bytes) __builtin_trap();
    memset(to, 0xff, bytes);
    fibers[current].copies.push_back({to, inside ? from : nullptr, bytes});
}
void finish_copies() {
    for (auto& copy : fibers[current].copies) {
        if (copy.from) memcpy(copy.to, copy.from, copy.bytes);
        else memset(copy.to, 0, copy.bytes);
    }
    fibers[current].copies.clear();
}

// -------------------------------------------------------------------------------------------------------------------
// Turns

enum Schedule { FORWARD, REVERSE, RANDOM, DEPTH_FIRST };
static int schedule = FORWARD;
static u64 seed = 1;
static u64 draw() {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static auto &warp_waiting = *new std::vector<unsigned>, &warp_done = *new std::vector<unsigned>;
static unsigned block_waiting, block_done;

// Lets the warp of the current fiber, or the whole block, go on when everybody has arrived.
static void release() {
    State arrived = fibers[current].state;
    unsigned warp = current / 32, first = arrived == AT_WARP ? warp * 32 : 0, size = arrived == AT_WARP ? 32 : count;
    if (arrived == DONE) {
        ++warp_done[warp];
        ++block_done;
        if (warp_waiting[warp]) fail("lanes left before a shuffle");
        if (block_waiting && block_waiting + block_done == count) fail("threads left before a barrier");
        return;
    }
    unsigned& waiting = arrived == AT_WARP ? warp_waiting[warp] : block_waiting;
    ++waiting;
    if (waiting + (arrived == AT_WARP ? warp_done[warp] : block_done) < size) return;
    if (waiting < size) fail(arrived == AT_WARP ? "lanes left before a shuffle" : "threads left before a barrier");
    for (unsigned i = first; i < first + size; ++i) fibers[i].state = READY;
    waiting = 0;
}

static bool pick() {
    auto ready = [](unsigned i) { return fibers[i].state == READY; };
    if (schedule == DEPTH_FIRST) {
        if (ready(current)) return true;
        for (unsigned i = 0; i < 32; ++i) if (ready(current / 32 * 32 + i)) { current = current / 32 * 32 + i; return true; }
    }
    auto after = [](unsigned i) { return i + 1 == count ? 0 : i + 1; };
    auto before = [](unsigned i) { return i ? i - 1 : count - 1; };
    unsigned at = schedule == RANDOM ? draw() % count : schedule == FORWARD ? after(current) : schedule == REVERSE ? before(current) : 0;
    for (unsigned i = 0; i < count; ++i, at = schedule == REVERSE ? before(at) : after(at)) {
        if (ready(at)) { current = at; return true; }
    }
    return false;
}

static void run_block() {
    if (kernel->shared.start) memset(kernel->shared.start, 0xff, kernel->shared.stop - kernel->shared.start);
    for (unsigned i = 0; i < count; ++i) {
        fibers[i].state = READY;
        fibers[i].copies.clear();
        prepare(fibers[i]);
    }
    warp_waiting.assign(count / 32, 0);
    warp_done.assign(count / 32, 0);
    block_waiting = block_done = 0;
    current = schedule == REVERSE ? 0 : count - 1;
    if (schedule == DEPTH_FIRST) current = 0;
    while (pick()) {
        thread_index.x = current;
        resume();
        release();
    }
    for (unsigned i = 0; i < count; ++i) if (fibers[i].state != DONE) fail("threads wait for one another");
}

void launch(const Kernel& which, const void* args, Index grid, Index block) {
    kernel = &which;
    arguments = args;
    grid_size = grid;
    block_size = block;
    count = block.x;
    if (block.y != 1 || block.z != 1 || count % 32 || count == 0 || count > which.threads) fail("bad block size");
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535) fail("bad grid size");
    while (fibers.size() < count) {
        fibers.emplace_back();
        // Tops of stacks that lie alike would share the few lines of one set of the cache.
        fibers.back().stack = (char*)malloc(STACK + 4096) + fibers.size() % 64 * 64;
    }
    u64 blocks = (u64)grid.x * grid.y * grid.z;
    u64 offset = schedule == RANDOM ? draw() % blocks : 0;
    for (u64 i = 0; i < blocks; ++i) {
        u64 b = schedule == REVERSE ? blocks - 1 - i : (i + offset) % blocks;
        block_index = {(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y), (unsigned)(b / grid.x / grid.y)};
        run_block();
    }
}
}  // namespace emulation

// The order of turns for the launches that follow.
extern "C" void standin_schedule(int schedule, u64 seed) {
    emulation::schedule = schedule;
    emulation::seed = seed * 2654435769u + 1;
}
