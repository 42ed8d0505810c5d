// Pooling and resampling of image planes [planes, height, width], forward and backward. Gradients are gathered: every
// pixel of the input asks the windows that cover it, in their order, so that nothing is added twice at once.
#include "common.cuh"

struct Axis {
    i64 input, output;
    i64 kernel, stride, padding, dilation;
};

struct PoolArgs {
    Operand x;         // the input, or the gradient of the result
    void* y;
    i64* indices;      // of maxima, -1 in windows of padding alone; null for means
    Axis axis[2];
    i64 planes;
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

template <class C> __device__ void max_pool(const PoolArgs& a) {
    i64 outputs = a.axis[0].output * a.axis[1].output, width = a.axis[1].input;
    FOR_EACH(i, a.planes * outputs) {
        i64 plane = divide(i, outputs), at = i - plane * outputs, base = plane * a.axis[0].input * width;
        i64 row = divide(at, a.axis[1].output);
        Window rows = window(a.axis[0], a.adaptive, row);
        Window columns = window(a.axis[1], a.adaptive, at - row * a.axis[1].output);
        C best = Limits<C>::least();
        i64 where = pixels(rows) && pixels(columns) ? rows.start * width + columns.start : -1;
        for (i64 y = rows.start; y < rows.end; y += rows.step) {
            for (i64 x = columns.start; x < columns.end; x += columns.step) {
                C v = load<C>(a.x, base + y * width + x);
                if (v > best || is_nan(v)) {
                    best = v;
                    where = y * width + x;
                }
            }
        }
        store_as(a.y, a.out, i, best);
        a.indices[i] = where;
    }
}

KERNEL(max_pool_f32, PoolArgs) { max_pool<float>(a); }
KERNEL(max_pool_f64, PoolArgs) { max_pool<double>(a); }

template <class C> __device__ inline C covered(const PoolArgs& a, const Window& rows, const Window& columns) {
    return a.count_padding ? (C)(rows.size * columns.size) : (C)(pixels(rows) * pixels(columns));
}

template <class C> __device__ void avg_pool(const PoolArgs& a) {
    i64 outputs = a.axis[0].output * a.axis[1].output, width = a.axis[1].input;
    FOR_EACH(i, a.planes * outputs) {
        i64 plane = divide(i, outputs), at = i - plane * outputs, base = plane * a.axis[0].input * width;
        i64 row = divide(at, a.axis[1].output);
        Window rows = window(a.axis[0], a.adaptive, row);
        Window columns = window(a.axis[1], a.adaptive, at - row * a.axis[1].output);
        C sum = 0;
        for (i64 y = rows.start; y < rows.end; ++y) {
            for (i64 x = columns.start; x < columns.end; ++x) sum += load<C>(a.x, base + y * width + x);
        }
        store_as(a.y, a.out, i, sum / covered<C>(a, rows, columns));
    }
}

KERNEL(avg_pool_f32, PoolArgs) { avg_pool<float>(a); }
KERNEL(avg_pool_f64, PoolArgs) { avg_pool<double>(a); }

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

// What each pixel gets from the windows whose maximum it was. A block takes whole planes, so that a pixel costs one division.
template <class C> __device__ void max_pool_grad(const PoolArgs& a) {
    i64 inputs = a.axis[0].input * a.axis[1].input, outputs = a.axis[0].output * a.axis[1].output;
    for (i64 plane = blockIdx.x; plane < a.planes; plane += gridDim.x) {
        for (i64 at = threadIdx.x; at < inputs; at += blockDim.x) {
            i64 y = divide(at, a.axis[1].input), x = at - y * a.axis[1].input;
            i64 last_r = last_window(a.axis[0], a.adaptive, y), last_c = last_window(a.axis[1], a.adaptive, x);
            i64 first_c = first_window(a.axis[1], a.adaptive, x);
            C sum = 0;
            for (i64 r = first_window(a.axis[0], a.adaptive, y); r <= last_r; ++r) {
                for (i64 c = first_c; c <= last_c; ++c) {
                    i64 from = plane * outputs + r * a.axis[1].output + c;
                    if (a.indices[from] == at) sum += load<C>(a.x, from);
                }
            }
            store_as(a.y, a.out, plane * inputs + at, sum);
        }
    }
}

KERNEL(max_pool_grad_f32, PoolArgs) { max_pool_grad<float>(a); }
KERNEL(max_pool_grad_f64, PoolArgs) { max_pool_grad<double>(a); }

// Each pixel's share of the windows that cover it.
template <class C> __device__ void avg_pool_grad(const PoolArgs& a) {
    i64 inputs = a.axis[0].input * a.axis[1].input, outputs = a.axis[0].output * a.axis[1].output;
    FOR_EACH(i, a.planes * inputs) {
        i64 plane = divide(i, inputs), at = i - plane * inputs, y = divide(at, a.axis[1].input), x = at - y * a.axis[1].input;
        C sum = 0;
        for (i64 r = first_window(a.axis[0], a.adaptive, y); r <= last_window(a.axis[0], a.adaptive, y); ++r) {
            Window rows = window(a.axis[0], a.adaptive, r);
            if (y < rows.start || y >= rows.end) continue;
            for (i64 c = first_window(a.axis[1], a.adaptive, x); c <= last_window(a.axis[1], a.adaptive, x); ++c) {
                Window columns = window(a.axis[1], a.adaptive, c);
                if (x < columns.start || x >= columns.end) continue;
                sum += load<C>(a.x, plane * outputs + r * a.axis[1].output + c) / covered<C>(a, rows, columns);
            }
        }
        store_as(a.y, a.out, i, sum);
    }
}

KERNEL(avg_pool_grad_f32, PoolArgs) { avg_pool_grad<float>(a); }
KERNEL(avg_pool_grad_f64, PoolArgs) { avg_pool_grad<double>(a); }

// -------------------------------------------------------------------------------------------------------------------
// Upsampling

enum Interpolation { NEAREST, BILINEAR, BILINEAR_ALIGNED };

struct UpsampleArgs {
    Operand x;         // planes of `input`, or the gradient of planes of `output`
    void* y;
    i64 input[2], output[2];
    i64 planes;
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
    i64 outputs = a.output[0] * a.output[1];
    FOR_EACH(i, a.planes * outputs) {
        i64 plane = divide(i, outputs), at = i - plane * outputs, base = plane * a.input[0] * a.input[1];
        i64 row = divide(at, a.output[1]);
        Mix<C> r = mix<C>(row, a.input[0], a.output[0], a.how);
        Mix<C> c = mix<C>(at - row * a.output[1], a.input[1], a.output[1], a.how);
        C top = load<C>(a.x, base + r.at[0] * a.input[1] + c.at[0]);
        if (a.how != NEAREST) {
            C right = load<C>(a.x, base + r.at[0] * a.input[1] + c.at[1]);
            C bottom = load<C>(a.x, base + r.at[1] * a.input[1] + c.at[0]);
            C corner = load<C>(a.x, base + r.at[1] * a.input[1] + c.at[1]);
            top = r.weight[0] * (c.weight[0] * top + c.weight[1] * right) +
                  r.weight[1] * (c.weight[0] * bottom + c.weight[1] * corner);
        }
        store_as(a.y, a.out, i, top);
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
    i64 inputs = a.input[0] * a.input[1], corners = a.how == NEAREST ? 1 : 2;
    FOR_EACH(i, a.planes * inputs) {
        i64 plane = divide(i, inputs), at = i - plane * inputs, y = divide(at, a.input[1]), x = at - y * a.input[1];
        i64 base = plane * a.output[0] * a.output[1];
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
                C g = load<C>(a.x, base + r * a.output[1] + c);
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
