// Stable sorting along one axis by a bitonic network over positions.
//
// Ties are broken by position, which makes the network stable. Lines are padded to a power of two with positions past
// the end, which sort last. Steps within a tile, a line or SORT_TILE positions of it, run in shared memory, longer ones in
// global memory, one launch each.
#include "common.cuh"

#define SORT_TILE 512

struct SortArgs {
    Operand x;       // keys
    i64* order;      // [lines, padded]
    i64 len;         // elements of a line
    i64 inner;       // distance of neighbours in row-major order
    i64 padded;      // power of two
    i64 span;        // length of the sequences being merged
    i64 step;        // distance of the elements compared
    int descending;
    int first;       // whether a tile starts from scratch
};

template <class C> struct Keys {
    const SortArgs& a;
    i64 base;
    __device__ inline C key(i64 at) const { return load<C>(a.x, base + at * a.inner); }
    // Whether position `p` comes before `q`: numbers in order, then NaN (before numbers when descending).
    __device__ inline bool before(i64 p, i64 q) const {
        if (p >= a.len || q >= a.len) return p < q;
        C x = key(p), y = key(q);
        if (a.descending) { C t = x; x = y; y = t; }
        if (is_nan(x) || is_nan(y)) return is_nan(x) == is_nan(y) ? p < q : is_nan(y);
        return x == y ? p < q : x < y;
    }
};

template <class C> __device__ inline Keys<C> keys_of(const SortArgs& a, i64 line) {
    return Keys<C>{a, divide(line, a.inner) * a.len * a.inner + line % a.inner};
}

// Puts positions i and i + step in the order that the direction of their sequence asks for.
template <class C> __device__ inline void exchange(const Keys<C>& keys, i64* order, i64 i, i64 step, bool up) {
    i64 p = order[i], q = order[i + step];
    if (keys.before(q, p) == up) {
        order[i] = q;
        order[i + step] = p;
    }
}

// All steps that stay within a tile: a full sort of it when `first`, else the end of the merge of `span`.
template <class C> __device__ void sort_tile(const SortArgs& a, i64* tile) {
    int width = a.padded < SORT_TILE ? a.padded : SORT_TILE;
    i64 tiles = a.padded / width, line = divide(blockIdx.x, tiles), start = (blockIdx.x - line * tiles) * width;
    i64* order = a.order + line * a.padded + start;
    Keys<C> keys = keys_of<C>(a, line);
    for (int i = threadIdx.x; i < width; i += blockDim.x) tile[i] = a.first ? start + i : order[i];
    for (i64 span = a.first ? 2 : a.span; span <= (a.first ? width : a.span); span *= 2) {
        for (i64 step = span < width ? span / 2 : width / 2; step > 0; step /= 2) {
            __syncthreads();
            for (int t = threadIdx.x; t < width / 2; t += blockDim.x) {
                i64 i = t / step * (2 * step) + t % step;
                exchange(keys, tile, i, step, ((start + i) & span) == 0);
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < width; i += blockDim.x) order[i] = tile[i];
}

// One step of a merge longer than a tile; a thread per pair.
template <class C> __device__ void sort_step(const SortArgs& a, i64 lines) {
    FOR_EACH(t, lines * (a.padded / 2)) {
        i64 line = divide(t, a.padded / 2), pair = t - line * (a.padded / 2);
        i64 i = pair / a.step * (2 * a.step) + pair % a.step;
        exchange(keys_of<C>(a, line), a.order + line * a.padded, i, a.step, (i & a.span) == 0);
    }
}

struct SortStepArgs { SortArgs sort; i64 lines; };

#define SORT(name, C)                                                                                   \
    KERNEL(sort_tile_##name, SortArgs) { __shared__ i64 tile[SORT_TILE]; sort_tile<C>(a, tile); }       \
    KERNEL(sort_step_##name, SortStepArgs) { sort_step<C>(a.sort, a.lines); }
SORT(f32, float)
SORT(f64, double)
SORT(i64, i64)
#undef SORT

struct SortedArgs {
    Operand x;
    const i64* order;
    void* values;
    i64* positions;
    i64 n;
    i64 len;
    i64 inner;
    i64 padded;
    int out;
};

// Sorted values and positions in the layout of x.
template <class C> __device__ void sorted(const SortedArgs& a) {
    FOR_EACH(i, a.n) {
        i64 outer = divide(i, a.len * a.inner), rest = i - outer * a.len * a.inner;
        i64 k = divide(rest, a.inner), lane = rest - k * a.inner;
        i64 at = a.order[(outer * a.inner + lane) * a.padded + k];
        a.positions[i] = at;
        store_as(a.values, a.out, i, load<C>(a.x, (outer * a.len + at) * a.inner + lane));
    }
}

KERNEL(sorted_f32, SortedArgs) { sorted<float>(a); }
KERNEL(sorted_f64, SortedArgs) { sorted<double>(a); }
KERNEL(sorted_i64, SortedArgs) { sorted<i64>(a); }
