// Warp-level products of 16-bit matrices on tensor cores (sm_80 and newer), and what brings their fragments there.
//
// A warp multiplies A [16, 16] by B [16, 8] and adds to C [16, 8] in float. With `l` for the lane, A's registers hold rows
// l / 4 and l / 4 + 8 at columns 2 (l % 4) and, in the second two, 8 further; B's hold rows 2 (l % 4), then 8 further, of
// column l / 4; C's hold rows l / 4 and l / 4 + 8 at columns 2 (l % 4). On older GPUs nothing of this may run.
#pragma once

#if defined(__CUDACC_RTC__)
#if __CUDA_ARCH__ >= 800
#define TENSOR_CORES(...) asm volatile(__VA_ARGS__)
#else
#define TENSOR_CORES(...) asm volatile("trap;")
#endif
__device__ inline u32 shared_address(const void* at) { return (u32)__cvta_generic_to_shared(at); }
#endif

// threadIdx.x, read anew wherever it is asked for: what follows from it stays in no register between.
__device__ inline u32 thread_here() {
#if defined(__CUDACC_RTC__)
    u32 thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
#else
    return threadIdx.x;
#endif
}

// Two numbers in one register, rounded.
template <int T> __device__ inline u32 pack(float low, float high) {
    return T == F16 ? to_f16_pair(low, high) : to_bf16_pair(low, high);
}

template <int T> __device__ inline float unpack(u32 both, int half) {
    u16 h = (u16)(both >> 16 * half);
    return T == F16 ? f16_to_float(h) : bf16_to_float(h);
}

// c += a * b
template <int T> __device__ inline void multiply(float c[4], const u32 a[4], const u32 b[2]) {
#if defined(__CUDACC_RTC__)
    if (T == F16) {
        TENSOR_CORES("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    } else {
        TENSOR_CORES("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
#else
    struct Mine { float a[4][2], b[2][2]; } mine;
    for (int i = 0; i < 8; ++i) mine.a[i / 2][i % 2] = unpack<T>(a[i / 2], i % 2);
    for (int i = 0; i < 4; ++i) mine.b[i / 2][i % 2] = unpack<T>(b[i / 2], i % 2);
    emulation::Shown<Mine> lanes(mine);
    unsigned row = threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    for (int t = 0; t < 8; ++t) {  // terms 2t and 2t + 1 lie with lanes t % 4 of the row's four and of the column's
        const auto& x = lanes[row * 4 + t % 4].a;
        for (int i = 0; i < 4; ++i) {
            const float *l = x[i / 2 + t / 4 * 2], *r = lanes[(column + i % 2) * 4 + t % 4].b[t / 4];
            c[i] += l[0] * r[0];
            c[i] += l[1] * r[1];
        }
    }
#endif
}

// Four matrices of 8 rows of 16 bytes, lanes 8i to 8i + 7 naming the rows of matrix i: of each the lane gets columns
// 2 (l % 4) and the next of row l / 4, or that of the transposed matrix.
template <bool TRANSPOSED> __device__ inline void load_matrices(u32 to[4], const u16* row) {
#if defined(__CUDACC_RTC__)
    if (TRANSPOSED) {
        TENSOR_CORES("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(shared_address(row)) : "memory");
    } else {
        TENSOR_CORES("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(shared_address(row)) : "memory");
    }
#else
    emulation::aligned(row);
    emulation::Shown<const u16*> rows(row);
    unsigned lane = threadIdx.x % 32, r = lane / 4, c = lane % 4 * 2;
    for (int i = 0; i < 4; ++i) {
        u32 low = TRANSPOSED ? rows[i * 8 + c][r] : rows[i * 8 + r][c];
        u32 high = TRANSPOSED ? rows[i * 8 + c + 1][r] : rows[i * 8 + r][c + 1];
        to[i] = low | high << 16;
    }
#endif
}

// Starts to copy 16 bytes into shared memory; zeros, and nothing is read, unless they lie `inside`.
__device__ inline void copy_later(u16* to, const u16* from, bool inside) {
#if defined(__CUDACC_RTC__)
    TENSOR_CORES("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 : : "r"(shared_address(to)), "l"(from), "r"(inside ? 16 : 0) : "memory");
#else
    emulation::copy_later(to, from, 16, inside);
#endif
}

// As above, for one number.
__device__ inline void copy_later(float* to, const float* from, bool inside) {
#if defined(__CUDACC_RTC__)
    TENSOR_CORES("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 : : "r"(shared_address(to)), "l"(from), "r"(inside ? 4 : 0) : "memory");
#else
    emulation::copy_later(to, from, 4, inside);
#endif
}

// Waits for this thread's copies.
__device__ inline void finish_copies() {
#if defined(__CUDACC_RTC__)
    TENSOR_CORES("cp.async.wait_all;" : : : "memory");
#else
    emulation::finish_copies();
#endif
}
