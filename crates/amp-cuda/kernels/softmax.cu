// Softmax, log-softmax, log-sum-exp and their gradients along one axis.
//
// A line's elements are `inner` apart in row-major order. Lines of up to CACHE elements are read from memory once and
// kept in shared memory; longer ones are read again in every pass.
#include "common.cuh"

#define CACHE 4096

struct SoftmaxArgs {
    Operand x;
    void* y;
    i64 lines;
    i64 len;
    i64 inner;
    int log;
    int out;
};

template <class C> struct Line {
    const Operand& x;
    C* cache;  // null when the line is not kept
    i64 base, inner;
    i64 packs;  // of a line that is kept pack by pack: the first elements of all, then the second ones; else 0
    __device__ inline C get(i64 k) const {
        return cache ? cache[packs ? k % PACK * packs + k / PACK : k] : load<C>(x, base + k * inner);
    }
    // For all k, all elements in some order.
    __device__ inline C any(i64 k) const { return cache ? cache[k] : load<C>(x, base + k * inner); }
};

// Line `team.number()`, in `cache` if it fits; whole packs where the line is aligned.
template <class C, class Team>
__device__ inline Line<C> open(const Operand& x, i64 base, i64 len, i64 inner, C* cache, Team team) {
    Line<C> line = {x, nullptr, base, inner, 0};
    if (cache && len <= CACHE) {
        for (i64 k = team.rank(); k < len; k += team.size()) cache[k] = line.get(k);
        __syncthreads();
        line.cache = cache;
    }
    return line;
}
// float lines of whole packs: kept such that neighbouring threads write neighbouring words
template <>
__device__ inline Line<float> open(const Operand& x, i64 base, i64 len, i64 inner, float* cache, BlockTeam<float> team) {
    Line<float> line = {x, nullptr, base, inner, 0};
    if (len > CACHE) return line;
    if (x.packed && inner == 1 && len % PACK == 0) {
        line.packs = len / PACK;
        for (i64 p = team.rank(); p < line.packs; p += team.size()) {
            float v[PACK];
            load_pack(x, base / PACK + p, v);
            for (int j = 0; j < PACK; ++j) cache[j * line.packs + p] = v[j];
        }
    } else {
        for (i64 k = team.rank(); k < len; k += team.size()) cache[k] = line.get(k);
    }
    __syncthreads();
    line.cache = cache;
    return line;
}

template <class C, class Team> __device__ inline C largest(const Line<C>& line, i64 len, Team team) {
    C max = Limits<C>::least();
    for (i64 k = team.rank(); k < len; k += team.size()) max = Greatest{}.join(max, line.any(k));
    return team.reduce(Greatest{}, max);
}

template <class C, class Team> __device__ inline C sum_exp(const Line<C>& line, i64 len, C max, Team team) {
    C sum = 0;
    for (i64 k = team.rank(); k < len; k += team.size()) sum += exp_of(line.any(k) - max);
    return team.reduce(Add{}, sum);
}

// The result of a line that is kept pack by pack, if it is written so too.
template <class C, class Team>
__device__ inline bool softmax_packs(const SoftmaxArgs&, const Line<C>&, C, C, C, Team) { return false; }
template <>
__device__ inline bool softmax_packs(const SoftmaxArgs& a, const Line<float>& line, float max, float log_sum, float scale,
                                     BlockTeam<float> team) {
    if (!line.packs || !packable(a.out)) return false;
    for (i64 p = team.rank(); p < line.packs; p += team.size()) {
        float v[PACK];
        for (int j = 0; j < PACK; ++j) {
            float shifted = line.cache[j * line.packs + p] - max;
            v[j] = a.log ? shifted - log_sum : exp_of(shifted) * scale;
        }
        store_pack(a.y, a.out, line.base + p * PACK, v);
    }
    return true;
}

template <class C, class Team> __device__ void softmax(const SoftmaxArgs& a, C* cache, Team team) {
    if (team.number() >= a.lines) return;
    i64 base = line_base(team.number(), a.len, a.inner);
    Line<C> line = open<C>(a.x, base, a.len, a.inner, cache, team);
    C max = largest(line, a.len, team), sum = sum_exp(line, a.len, max, team);
    C log_sum = a.log ? log_of(sum) : 0, scale = 1 / sum;
    if (softmax_packs(a, line, max, log_sum, scale, team)) return;
    for (i64 k = team.rank(); k < a.len; k += team.size()) {
        C shifted = line.get(k) - max;
        store_as(a.y, a.out, base + k * a.inner, a.log ? shifted - log_sum : exp_of(shifted) * scale);
    }
}

// Infinite maxima are their own result; shifting by them would make NaN.
template <class C, class Team> __device__ void logsumexp(const SoftmaxArgs& a, C* cache, Team team) {
    if (team.number() >= a.lines) return;
    Line<C> line = open<C>(a.x, line_base(team.number(), a.len, a.inner), a.len, a.inner, cache, team);
    C max = largest(line, a.len, team);
    bool infinite = max == Limits<C>::least() || max == Limits<C>::greatest();
    C sum = sum_exp(line, a.len, infinite ? 0 : max, team);
    if (team.rank() == 0) store_as(a.y, a.out, team.number(), infinite ? max : max + log_of(sum));
}

struct SoftmaxGradArgs {
    Operand y;     // output of the forward pass
    Operand grad;  // gradient of it
    void* dx;
    i64 lines;
    i64 len;
    i64 inner;
    int log;
    int out;
};

// softmax: y (g - sum(g y)); log-softmax: g - exp(y) sum(g)
template <class C, class Team> __device__ void softmax_grad(const SoftmaxGradArgs& a, Team team) {
    if (team.number() >= a.lines) return;
    i64 base = line_base(team.number(), a.len, a.inner);
    Line<C> y = {a.y, nullptr, base, a.inner, 0}, g = {a.grad, nullptr, base, a.inner, 0};
    C sum = 0;
    for (i64 k = team.rank(); k < a.len; k += team.size()) sum += a.log ? g.get(k) : g.get(k) * y.get(k);
    sum = team.reduce(Add{}, sum);
    for (i64 k = team.rank(); k < a.len; k += team.size()) {
        C d = a.log ? g.get(k) - exp_of(y.get(k)) * sum : y.get(k) * (g.get(k) - sum);
        store_as(a.dx, a.out, base + k * a.inner, d);
    }
}

#define SOFTMAX(name, C)                                                                              \
    KERNEL(softmax_rows_##name, SoftmaxArgs) {                                                        \
        __shared__ C shared[WARP], cache[CACHE];                                                      \
        softmax<C>(a, cache, BlockTeam<C>{shared});                                                   \
    }                                                                                                 \
    KERNEL(softmax_columns_##name, SoftmaxArgs) { softmax<C>(a, (C*)nullptr, ThreadTeam<C>{nullptr}); } \
    KERNEL(logsumexp_rows_##name, SoftmaxArgs) {                                                      \
        __shared__ C shared[WARP], cache[CACHE];                                                      \
        logsumexp<C>(a, cache, BlockTeam<C>{shared});                                                 \
    }                                                                                                 \
    KERNEL(logsumexp_columns_##name, SoftmaxArgs) { logsumexp<C>(a, (C*)nullptr, ThreadTeam<C>{nullptr}); } \
    KERNEL(softmax_grad_rows_##name, SoftmaxGradArgs) {                                               \
        __shared__ C shared[WARP];                                                                    \
        softmax_grad<C>(a, BlockTeam<C>{shared});                                                     \
    }                                                                                                 \
    KERNEL(softmax_grad_columns_##name, SoftmaxGradArgs) { softmax_grad<C>(a, ThreadTeam<C>{nullptr}); }
SOFTMAX(f32, float)
SOFTMAX(f64, double)
#undef SOFTMAX
