// Pooling and resampling of images [images, height, width, channels], forward and backward; planes that follow one another
// are images of one channel. Gradients are gathered: every pixel of the input asks the windows that cover it, in their order,
// so that nothing is added twice at once.
#include "common.cuh"

// The channels of a pixel that are a thread's, from the first one on: one, or a pack, so that neighbours load side by side
// and share what finding the pixel costs.
struct Pixel { i64 image, row, column, channel; };

// Part number `i` of an image whose pixels have `parts` parts of N channels, and part number `i` of all images.
template <int N> __device__ inline Pixel pixel_within(i64 image, i64 i, i64 parts, i64 width) {
    i64 at = parts == 1 ? i : divide(i, parts), row = divide(at, width);
    return {image, row, at - row * width, (i - at * parts) * N};
}
template <int N> __device__ inline Pixel pixel_of(i64 i, i64 parts, i64 height, i64 width) {
    i64 size = height * width * parts, image = divide(i, size);
    return pixel_within<N>(image, i - image * size, parts, width);
}

// N elements of an operand from number `i` on, and as many of a result.
template <class C, int N> __device__ inline void load_part(const Operand& x, i64 i, C v[N]) {
    if constexpr (N == PACK) load_pack(x, i / PACK, v);
    else v[0] = load<C>(x, i);
}
template <class C, int N> __device__ inline void store_part(void* y, int dtype, i64 i, const C v[N]) {
    if constexpr (N == PACK) store_pack(y, dtype, i, v);
    else store_as(y, dtype, i, v[0]);
}

// Where the maxima of a part are in their planes, moved 16 bytes at once.
template <int N> struct alignas(N == 1 ? 8 : 16) Places { i64 at[N]; };

struct Axis {
    i64 input, output;
    i64 kernel, stride, padding, dilation;
};

struct PoolArgs {
    Operand x;         // the input, or the gradient of the result; packed where parts are packs
    void* y;
    i64* indices;      // of maxima, -1 in windows of padding alone; null for means
    Axis axis[2];
    i64 images, channels;
    int adaptive;      // windows divide the plane; kernel, stride, padding and dilation do not count
    int count_padding;
    int out;
};

// The pixels of one window along one axis: every `step`-th of start..end; `size` is its length with padding.
struct Window { i64 start, end, step, size; };

__device__ inline Window window(const Axis& x, int adaptive, i64 i) {
    if (adaptive) {
        i64 start = divide(i * x.input, x.output), end = divide((i + 1) * x.input + x.output - 1, x.output);
        return {start, end, 1, end - start};
    }
    i64 low = i * x.stride, high = low + (x.kernel - 1) * x.dilation + 1;
    i64 outside = x.padding > low ? divide(x.padding - low + x.dilation - 1, x.dilation) * x.dilation : 0;
    i64 end = high > x.padding ? high - x.padding : 0, reach = x.input + 2 * x.padding;
    return {low + outside - x.padding, end < x.input ? end : x.input, x.dilation, (high < reach ? high : reach) - low};
}

__device__ inline i64 pixels(const Window& w) { return w.end > w.start ? divide(w.end - w.start + w.step - 1, w.step) : 0; }

#define POOL_KERNELS(stem)                                            \
    KERNEL(stem##_f32, PoolArgs) { stem<float, 1>(a); }               \
    KERNEL(stem##_packs_f32, PoolArgs) { stem<float, PACK>(a); }      \
    KERNEL(stem##_f64, PoolArgs) { stem<double, 1>(a); }

template <class C, int N> __device__ void max_pool(const PoolArgs& a) {
    i64 parts = a.channels / N, width = a.axis[1].input;
    FOR_EACH(i, a.images * a.axis[0].output * a.axis[1].output * parts) {
        Pixel p = pixel_of<N>(i, parts, a.axis[0].output, a.axis[1].output);
        Window rows = window(a.axis[0], a.adaptive, p.row), columns = window(a.axis[1], a.adaptive, p.column);
        bool any = rows.start < rows.end && columns.start < columns.end;
        C best[N], v[N];
        Places<N> where;
        for (int j = 0; j < N; ++j) {
            best[j] = Limits<C>::least();
            where.at[j] = any ? rows.start * width + columns.start : -1;
        }
        i64 base = p.image * a.axis[0].input * width;
        for (i64 y = rows.start; y < rows.end; y += rows.step) {
            for (i64 x = columns.start; x < columns.end; x += columns.step) {
                i64 at = y * width + x;
                load_part<C, N>(a.x, (base + at) * a.channels + p.channel, v);
                for (int j = 0; j < N; ++j) {
                    if (v[j] > best[j] || is_nan(v[j])) {
                        best[j] = v[j];
                        where.at[j] = at;
                    }
                }
            }
        }
        store_part<C, N>(a.y, a.out, i * N, best);
        ((Places<N>*)a.indices)[i] = where;
    }
}

POOL_KERNELS(max_pool)

template <class C> __device__ inline C covered(const PoolArgs& a, const Window& rows, const Window& columns) {
    return a.count_padding ? (C)(rows.size * columns.size) : (C)(pixels(rows) * pixels(columns));
}

template <class C, int N> __device__ void avg_pool(const PoolArgs& a) {
    i64 parts = a.channels / N, width = a.axis[1].input;
    FOR_EACH(i, a.images * a.axis[0].output * a.axis[1].output * parts) {
        Pixel p = pixel_of<N>(i, parts, a.axis[0].output, a.axis[1].output);
        Window rows = window(a.axis[0], a.adaptive, p.row), columns = window(a.axis[1], a.adaptive, p.column);
        i64 base = p.image * a.axis[0].input * width;
        C sum[N] = {}, v[N];
        for (i64 y = rows.start; y < rows.end; ++y) {
            for (i64 x = columns.start; x < columns.end; ++x) {
                load_part<C, N>(a.x, (base + y * width + x) * a.channels + p.channel, v);
                for (int j = 0; j < N; ++j) sum[j] += v[j];
            }
        }
        C size = covered<C>(a, rows, columns);
        for (int j = 0; j < N; ++j) sum[j] /= size;
        store_part<C, N>(a.y, a.out, i * N, sum);
    }
}

POOL_KERNELS(avg_pool)

// The windows along an axis that may cover pixel `p`.
__device__ inline i64 first_window(const Axis& x, int adaptive, i64 p) {
    i64 reach = (x.kernel - 1) * x.dilation + 1;
    i64 past = p + x.padding - reach;
    if (adaptive) past = divide(p * x.output, x.input) - 2;
    else past = past < 0 ? -1 : divide_by_stride(past, x.stride);
    return past < 0 ? 0 : past + 1;
}
__device__ inline i64 last_window(const Axis& x, int adaptive, i64 p) {
    i64 i = adaptive ? divide((p + 1) * x.output, x.input) + 1 : divide_by_stride(p + x.padding, x.stride);
    return i < x.output - 1 ? i : x.output - 1;
}

template <int N> __device__ inline bool any_at(const Places<N>& where, i64 at) {
    bool any = false;
    for (int j = 0; j < N; ++j) any |= where.at[j] == at;
    return any;
}

// What each pixel gets from the windows whose maximum it was. A block stays within an image, which saves a division.
template <class C, int N> __device__ void max_pool_grad(const PoolArgs& a) {
    i64 parts = a.channels / N, width = a.axis[1].input, inputs = a.axis[0].input * width;
    i64 outputs = a.axis[0].output * a.axis[1].output;
    for (i64 image = blockIdx.x; image < a.images; image += gridDim.x) {
        i64 step = (i64)gridDim.y * blockDim.x;
        for (i64 i = (i64)blockIdx.y * blockDim.x + threadIdx.x; i < inputs * parts; i += step) {
            Pixel p = pixel_within<N>(image, i, parts, width);
            i64 at = p.row * width + p.column, first_c = first_window(a.axis[1], a.adaptive, p.column);
            i64 last_r = last_window(a.axis[0], a.adaptive, p.row), last_c = last_window(a.axis[1], a.adaptive, p.column);
            C sum[N] = {}, v[N];
            for (i64 r = first_window(a.axis[0], a.adaptive, p.row); r <= last_r; ++r) {
                for (i64 c = first_c; c <= last_c; ++c) {
                    i64 from = (image * outputs + r * a.axis[1].output + c) * a.channels + p.channel;
                    Places<N> where = ((const Places<N>*)a.indices)[from / N];
                    if (!any_at(where, at)) continue;
                    load_part<C, N>(a.x, from, v);
                    for (int j = 0; j < N; ++j) {
                        if (where.at[j] == at) sum[j] += v[j];
                    }
                }
            }
            store_part<C, N>(a.y, a.out, (image * inputs * parts + i) * N, sum);
        }
    }
}

POOL_KERNELS(max_pool_grad)

// Each pixel's share of the windows that cover it.
template <class C, int N> __device__ void avg_pool_grad(const PoolArgs& a) {
    i64 parts = a.channels / N, outputs = a.axis[0].output * a.axis[1].output;
    FOR_EACH(i, a.images * a.axis[0].input * a.axis[1].input * parts) {
        Pixel p = pixel_of<N>(i, parts, a.axis[0].input, a.axis[1].input);
        i64 last_r = last_window(a.axis[0], a.adaptive, p.row), last_c = last_window(a.axis[1], a.adaptive, p.column);
        C sum[N] = {}, v[N];
        for (i64 r = first_window(a.axis[0], a.adaptive, p.row); r <= last_r; ++r) {
            Window rows = window(a.axis[0], a.adaptive, r);
            if (p.row < rows.start || p.row >= rows.end) continue;
            for (i64 c = first_window(a.axis[1], a.adaptive, p.column); c <= last_c; ++c) {
                Window columns = window(a.axis[1], a.adaptive, c);
                if (p.column < columns.start || p.column >= columns.end) continue;
                i64 from = p.image * outputs + r * a.axis[1].output + c;
                load_part<C, N>(a.x, from * a.channels + p.channel, v);
                C size = covered<C>(a, rows, columns);
                for (int j = 0; j < N; ++j) sum[j] += v[j] / size;
            }
        }
        store_part<C, N>(a.y, a.out, i * N, sum);
    }
}

POOL_KERNELS(avg_pool_grad)

// -------------------------------------------------------------------------------------------------------------------
// Upsampling

enum Interpolation { NEAREST, BILINEAR, BILINEAR_ALIGNED };

struct UpsampleArgs {
    Operand x;         // images of `input`, or the gradient of images of `output`
    void* y;
    i64 input[2], output[2];
    i64 images, channels;
    int how;
    int out;
};

// The two source positions of a result position, and their weights.
template <class C> struct Mix { i64 at[2]; C weight[2]; };

template <class C> __device__ inline C ratio_of(i64 input, i64 output, int how) {
    if (how == BILINEAR_ALIGNED) return output > 1 ? (C)(input - 1) / (C)(output - 1) : (C)0;
    return (C)input / (C)output;
}

template <class C> __device__ inline Mix<C> mix(i64 i, i64 input, i64 output, int how) {
    C ratio = ratio_of<C>(input, output, how), position = (C)i * ratio;
    if (how == BILINEAR) position = ((C)i + (C)0.5) * ratio - (C)0.5;
    i64 low = position > 0 ? (i64)position : 0;
    if (low > input - 1) low = input - 1;
    C weight = how == NEAREST || position < 0 ? (C)0 : position - (C)low;
    return {{low, low + 1 < input ? low + 1 : input - 1}, {1 - weight, weight}};
}

template <class C> __device__ void upsample(const UpsampleArgs& a) {
    FOR_EACH(i, a.images * a.output[0] * a.output[1] * a.channels) {
        Pixel p = pixel_of<1>(i, a.channels, a.output[0], a.output[1]);
        Mix<C> r = mix<C>(p.row, a.input[0], a.output[0], a.how), c = mix<C>(p.column, a.input[1], a.output[1], a.how);
        auto at = [&](int j, int k) {
            i64 pixel = (p.image * a.input[0] + r.at[j]) * a.input[1] + c.at[k];
            return load<C>(a.x, pixel * a.channels + p.channel);
        };
        C v = at(0, 0);
        if (a.how != NEAREST) {
            v = r.weight[0] * (c.weight[0] * v + c.weight[1] * at(0, 1)) +
                r.weight[1] * (c.weight[0] * at(1, 0) + c.weight[1] * at(1, 1));
        }
        store_as(a.y, a.out, i, v);
    }
}

KERNEL(upsample_f32, UpsampleArgs) { upsample<float>(a); }
KERNEL(upsample_f64, UpsampleArgs) { upsample<double>(a); }

// The result positions that may draw on source position `p`: those less than two positions away.
template <class C> __device__ inline i64 first_drawing(i64 p, i64 input, i64 output, int how) {
    C ratio = ratio_of<C>(input, output, how);
    i64 i = ratio > 0 ? (i64)(((C)p - 2) / ratio) - 2 : 0;
    return i > 0 ? i : 0;
}
template <class C> __device__ inline i64 last_drawing(i64 p, i64 input, i64 output, int how) {
    C ratio = ratio_of<C>(input, output, how);
    i64 i = ratio > 0 ? (i64)(((C)p + 2) / ratio) + 2 : output;
    return i < output - 1 ? i : output - 1;
}

template <class C> __device__ void upsample_grad(const UpsampleArgs& a) {
    i64 corners = a.how == NEAREST ? 1 : 2;
    FOR_EACH(i, a.images * a.input[0] * a.input[1] * a.channels) {
        Pixel p = pixel_of<1>(i, a.channels, a.input[0], a.input[1]);
        i64 y = p.row, x = p.column, base = p.image * a.output[0] * a.output[1];
        C sum = 0;
        i64 last_r = last_drawing<C>(y, a.input[0], a.output[0], a.how);
        i64 first_c = first_drawing<C>(x, a.input[1], a.output[1], a.how);
        i64 last_c = last_drawing<C>(x, a.input[1], a.output[1], a.how);
        for (i64 r = first_drawing<C>(y, a.input[0], a.output[0], a.how); r <= last_r; ++r) {
            Mix<C> row = mix<C>(r, a.input[0], a.output[0], a.how);
            if (row.at[0] != y && row.at[1] != y) continue;
            for (i64 c = first_c; c <= last_c; ++c) {
                Mix<C> column = mix<C>(c, a.input[1], a.output[1], a.how);
                if (column.at[0] != x && column.at[1] != x) continue;
                C g = load<C>(a.x, (base + r * a.output[1] + c) * a.channels + p.channel);
                for (int j = 0; j < corners; ++j) {
                    for (int k = 0; k < corners; ++k) {
                        if (row.at[j] == y && column.at[k] == x) sum += row.weight[j] * column.weight[k] * g;
                    }
                }
            }
        }
        store_as(a.y, a.out, i, sum);
    }
}

KERNEL(upsample_grad_f32, UpsampleArgs) { upsample_grad<float>(a); }
KERNEL(upsample_grad_f64, UpsampleArgs) { upsample_grad<double>(a); }
