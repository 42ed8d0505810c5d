// What the stand-ins of other libraries ask the driver's.
#pragma once
#include <functional>
#include <stdint.h>

// Does work in the order of a stream, or keeps it for the graph that the stream is captured for. `at` holds the addresses
// that the work uses.
void standin_submit(void* stream, std::function<void()> work, const uintptr_t* at, size_t count);
