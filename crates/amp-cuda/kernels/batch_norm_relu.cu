// Batch normalisation with the residual and relu that follow it in one pass. The backward pass needs no more of the result than
// where it was 0: a bit for each element, eight in a byte, the first one lowest. A thread takes the PACK elements of a byte.
#include "common.cuh"

// Whole packs of float in one access: whether it could be.
__device__ inline bool read_pack(const Operand& x, i64 first, float v[PACK]) {
    if (x.packed) load_pack(x, first / PACK, v);
    return x.packed;
}
__device__ inline bool read_pack(const Operand&, i64, double*) { return false; }
__device__ inline bool write_pack(void* y, int out, i64 first, const float v[PACK]) {
    if (packable(out)) store_pack(y, out, first, v);
    return packable(out);
}
__device__ inline bool write_pack(void*, int, i64, const double*) { return false; }

// The elements of `x` from `first` on, a multiple of PACK.
template <class C> __device__ inline void read(const Operand& x, i64 first, int count, C v[PACK]) {
    if (count == PACK && read_pack(x, first, v)) return;
#pragma unroll
    for (int j = 0; j < PACK; ++j) v[j] = j < count ? load<C>(x, first + j) : (C)0;
}

template <class C> __device__ inline void write(void* y, int out, i64 first, int count, const C v[PACK]) {
    if (count == PACK && write_pack(y, out, first, v)) return;
#pragma unroll
    for (int j = 0; j < PACK; ++j) {
        if (j < count) store_as(y, out, first + j, v[j]);
    }
}

// Elements of pack number `p` of `n` elements.
__device__ inline int within_pack(i64 p, i64 n) { return n - p * PACK < PACK ? (int)(n - p * PACK) : PACK; }

struct NormReluArgs {
    Operand x;          // [samples, channels, repeat]
    Operand weight;     // [channels]; null data for ones
    Operand bias;       // [channels]; null data for zeros
    Operand residual;   // like x; null data for none
    const void* mean;   // [channels]
    const void* var;
    void* y;
    u8* dead;           // null where nobody asks
    i64 n;
    i64 channels;
    i64 repeat;
    double eps;
    int out;
};

// What turns the elements of a channel into normal ones.
template <class C> struct Channel {
    C mean, scale, bias;
    __device__ inline Channel(const NormReluArgs& a, i64 c) {
        C rstd = 1 / sqrt_of(((const C*)a.var)[c] + (C)a.eps);
        mean = ((const C*)a.mean)[c];
        scale = rstd * (a.weight.data ? load<C>(a.weight, c) : (C)1);
        bias = a.bias.data ? load<C>(a.bias, c) : (C)0;
    }
};

template <class C> __device__ void batch_norm_relu(const NormReluArgs& a) {
    FOR_EACH(p, (a.n + PACK - 1) / PACK) {
        C v[PACK], others[PACK] = {};
        i64 first = p * PACK, row = divide(first, a.repeat), at = first - row * a.repeat;
        i64 c = row - divide(row, a.channels) * a.channels;
        int count = within_pack(p, a.n);
        read<C>(a.x, first, count, v);
        if (a.residual.data) read<C>(a.residual, first, count, others);
        Channel<C> channel(a, c);
        u32 bits = 0;
#pragma unroll
        for (int j = 0; j < PACK; ++j) {
            if (at == a.repeat) {
                at = 0;
                c = c + 1 == a.channels ? 0 : c + 1;
                channel = Channel<C>(a, c);
            }
            ++at;
            C y = (v[j] - channel.mean) * channel.scale + channel.bias;
            if (a.residual.data) y += others[j];
            bits |= (u32)(j < count && y <= (C)0) << j;
            v[j] = y <= (C)0 ? (C)0 : y;
        }
        write<C>(a.y, a.out, first, count, v);
        if (a.dead) a.dead[p] = (u8)bits;
    }
}

KERNEL(batch_norm_relu_f32, NormReluArgs) { batch_norm_relu<float>(a); }
KERNEL(batch_norm_relu_f64, NormReluArgs) { batch_norm_relu<double>(a); }
