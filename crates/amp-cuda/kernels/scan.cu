// Running sums and products along one axis.
#include "common.cuh"

enum Scan { SCAN_SUM, SCAN_PROD };

struct ScanArgs {
    Operand x;
    void* y;
    i64 len;    // elements of a line
    i64 inner;  // distance of neighbours in row-major order
    int op;
    int reverse;
    int out;
};

// What floats are joined in: thousands of roundings would add up, and parts of a product overflow where the whole does not.
template <class C> struct Wide { typedef C Type; };
template <> struct Wide<float> { typedef double Type; };

template <class C> __device__ inline C join(int op, C a, C b) { return op == SCAN_SUM ? plus(a, b) : times(a, b); }

// One line per block, THREADS elements at a time; `carry` is the fold of all tiles before: as in PyTorch, sums begin with 0,
// which makes 0 of a -0.
template <class C> __device__ void scan(const ScanArgs& a, typename Wide<C>::Type* shared) {
    i64 line = blockIdx.x, outer = divide(line, a.inner), base = outer * a.len * a.inner + (line - outer * a.inner);
    typedef typename Wide<C>::Type W;
    W carry = a.op == SCAN_SUM ? 0 : 1;
    for (i64 tile = 0; tile < a.len; tile += blockDim.x) {
        i64 k = tile + threadIdx.x, count = a.len - tile < blockDim.x ? a.len - tile : blockDim.x;
        i64 i = base + (a.reverse ? a.len - 1 - k : k) * a.inner;
        W v = k < a.len ? load<C>(a.x, i) : (C)0;
        for (int step = 1; step < blockDim.x; step *= 2) {
            shared[threadIdx.x] = v;
            __syncthreads();
            if (threadIdx.x >= step) v = join(a.op, shared[threadIdx.x - step], v);
            __syncthreads();
        }
        W folded = join(a.op, carry, v);
        if (k < a.len) store_as(a.y, a.out, i, (C)folded);
        shared[threadIdx.x] = v;
        __syncthreads();
        carry = join(a.op, carry, shared[count - 1]);
        __syncthreads();
    }
}

KERNEL(scan_f32, ScanArgs) { __shared__ double shared[THREADS]; scan<float>(a, shared); }
KERNEL(scan_f64, ScanArgs) { __shared__ double shared[THREADS]; scan<double>(a, shared); }
KERNEL(scan_i64, ScanArgs) { __shared__ i64 shared[THREADS]; scan<i64>(a, shared); }

struct CumprodGradArgs {
    Operand x;
    Operand grad;
    void* scratch;  // as many elements as x, in the type of computation
    void* dx;
    i64 lines;
    i64 len;
    i64 inner;
    int out;
};

// Each element's share of all later products, without a division, so that zeros are exact; a thread per line.
template <class C> __device__ void cumprod_grad(const CumprodGradArgs& a) {
    FOR_EACH(line, a.lines) {
        i64 outer = divide(line, a.inner), base = outer * a.len * a.inner + (line - outer * a.inner);
        C* g = (C*)a.scratch;
        C later = 0;
        for (i64 k = a.len - 1; k >= 0; --k) {
            i64 i = base + k * a.inner;
            g[i] = load<C>(a.grad, i) + later;
            later = load<C>(a.x, i) * g[i];
        }
        C before = 1;
        for (i64 k = 0; k < a.len; ++k) {
            i64 i = base + k * a.inner;
            store_as(a.dx, a.out, i, g[i] * before);
            before *= load<C>(a.x, i);
        }
    }
}

KERNEL(cumprod_grad_f32, CumprodGradArgs) { cumprod_grad<float>(a); }
KERNEL(cumprod_grad_f64, CumprodGradArgs) { cumprod_grad<double>(a); }
