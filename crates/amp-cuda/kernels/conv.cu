// Convolution of [N, C, H, W] with [O, C / groups, kh, kw] and its gradients, as matrix products whose operands are
// read straight from the image (implicit GEMM).
#include "gemm.cuh"
#include "conv.cuh"

// Forward: filters of a group against (sample, output pixel), a product for each group.
template <class C> __device__ void conv(const ConvArgs& a, Tiles<C>& tiles) {
    i64 c = a.channels / a.groups, o = a.filters / a.groups, pixels = a.oh * a.ow, taps = a.kh * a.kw;
    i64 columns = a.batch * pixels;
    const Place place(o, columns);
    i64 g = place.product;
    auto left = [&](i64 m, i64 k) { return load<C>(a.w, (g * o + m) * c * taps + k); };
    auto right = [&](i64 k, i64 n) {
        i64 channel = divide(k, taps), tap = k - channel * taps, sample = divide(n, pixels), pixel = n - sample * pixels;
        i64 down = divide(pixel, a.ow), tap_down = divide(tap, a.kw);
        i64 h = down * a.stride[0] + tap_down * a.dilation[0] - a.padding[0];
        i64 w = (pixel - down * a.ow) * a.stride[1] + (tap - tap_down * a.kw) * a.dilation[1] - a.padding[1];
        if (h < 0 || h >= a.height || w < 0 || w >= a.width) return (C)0;
        return load<C>(a.x, ((sample * a.channels + g * c + channel) * a.height + h) * a.width + w);
    };
    auto done = [&](i64 m, i64 n, C v) {
        i64 sample = divide(n, pixels), filter = g * o + m;
        if (a.bias.data) v += load<C>(a.bias, filter);
        store_as(a.y, a.out, (sample * a.filters + filter) * pixels + (n - sample * pixels), v);
    };
    tile_product<C>(tiles, place, o, columns, 0, c * taps, left, right, done);
}

KERNEL(conv_f32, ConvArgs) { __shared__ Tiles<float> tiles; conv<float>(a, tiles); }
KERNEL(conv_f64, ConvArgs) { __shared__ Tiles<double> tiles; conv<double>(a, tiles); }

// Gradient of the image, and transposed convolution: channels of a group against (sample, pixel).
template <class C> __device__ void conv_grad_input(const ConvArgs& a, Tiles<C>& tiles) {
    i64 c = a.channels / a.groups, o = a.filters / a.groups, pixels = a.height * a.width;
    i64 taps = a.kh * a.kw, columns = a.batch * pixels;
    const Place place(c, columns);
    i64 g = place.product;
    auto left = [&](i64 m, i64 k) {
        i64 filter = divide(k, taps), tap = k - filter * taps;
        return load<C>(a.w, ((g * o + filter) * c + m) * taps + tap);
    };
    auto right = [&](i64 k, i64 n) {
        i64 filter = divide(k, taps), tap = k - filter * taps, sample = divide(n, pixels), pixel = n - sample * pixels;
        i64 down = divide(pixel, a.width), tap_down = divide(tap, a.kw);
        i64 h = meets(down, tap_down, a.stride[0], a.padding[0], a.dilation[0], a.oh);
        i64 w = meets(pixel - down * a.width, tap - tap_down * a.kw, a.stride[1], a.padding[1], a.dilation[1], a.ow);
        if (h < 0 || w < 0) return (C)0;
        return load<C>(a.grad, ((sample * a.filters + g * o + filter) * a.oh + h) * a.ow + w);
    };
    auto done = [&](i64 m, i64 n, C v) {
        i64 sample = divide(n, pixels), channel = g * c + m;
        if (a.bias.data) v += load<C>(a.bias, channel);
        store_as(a.y, a.out, (sample * a.channels + channel) * pixels + (n - sample * pixels), v);
    };
    tile_product<C>(tiles, place, c, columns, 0, o * taps, left, right, done);
}

KERNEL(conv_grad_input_f32, ConvArgs) { __shared__ Tiles<float> tiles; conv_grad_input<float>(a, tiles); }
KERNEL(conv_grad_input_f64, ConvArgs) { __shared__ Tiles<double> tiles; conv_grad_input<double>(a, tiles); }

// Gradient of the kernel: part blockIdx.z of the sum over (sample, output pixel), to [splits, O, C / groups, kh, kw].
template <class C> __device__ void conv_grad_weight(const ConvArgs& a, Tiles<C>& tiles) {
    i64 c = a.channels / a.groups, o = a.filters / a.groups, pixels = a.oh * a.ow, taps = a.kh * a.kw;
    i64 columns = c * taps, terms = a.batch * pixels;
    const Place place(o, columns);
    i64 g = place.product;
    i64 from = blockIdx.z * a.per_split, to = from + a.per_split < terms ? from + a.per_split : terms;
    auto left = [&](i64 m, i64 k) {
        i64 sample = divide(k, pixels);
        return load<C>(a.grad, (sample * a.filters + g * o + m) * pixels + (k - sample * pixels));
    };
    auto right = [&](i64 k, i64 n) {
        i64 channel = divide(n, taps), tap = n - channel * taps, sample = divide(k, pixels), pixel = k - sample * pixels;
        i64 down = divide(pixel, a.ow), tap_down = divide(tap, a.kw);
        i64 h = down * a.stride[0] + tap_down * a.dilation[0] - a.padding[0];
        i64 w = (pixel - down * a.ow) * a.stride[1] + (tap - tap_down * a.kw) * a.dilation[1] - a.padding[1];
        if (h < 0 || h >= a.height || w < 0 || w >= a.width) return (C)0;
        return load<C>(a.x, ((sample * a.channels + g * c + channel) * a.height + h) * a.width + w);
    };
    auto done = [&](i64 m, i64 n, C v) {
        i64 i = ((blockIdx.z * a.filters + g * o + m) * columns) + n;
        if (a.accumulate) v += ((C*)a.y)[i];
        ((C*)a.y)[i] = v;
    };
    tile_product<C>(tiles, place, o, columns, from, to, left, right, done);
}

KERNEL(conv_grad_weight_f32, ConvArgs) { __shared__ Tiles<float> tiles; conv_grad_weight<float>(a, tiles); }
KERNEL(conv_grad_weight_f64, ConvArgs) { __shared__ Tiles<double> tiles; conv_grad_weight<double>(a, tiles); }

// -------------------------------------------------------------------------------------------------------------------
// Around products of 16-bit matrices with F32 results, which the vendor's library multiplies

// The pixels of 16-bit image x that each result sums up: y is [C, kh, kw, samples, oh, ow], zero in the padding. A thread
// writes PACK neighbouring columns, for which it finds the place once.
KERNEL(unfold_f32, ConvArgs) {
    i64 pixels = a.oh * a.ow, taps = a.kh * a.kw, columns = a.samples * pixels, packs = (columns + PACK - 1) / PACK;
    FOR_EACH(p, a.channels * taps * packs) {
        i64 row = divide(p, packs), first = (p - row * packs) * PACK;
        i64 channel = divide(row, taps), tap = row - channel * taps, tap_down = divide(tap, a.kw);
        i64 top = tap_down * a.dilation[0] - a.padding[0], left = (tap - tap_down * a.kw) * a.dilation[1] - a.padding[1];
        i64 sample = divide(first, pixels), down = divide(first - sample * pixels, a.ow);
        i64 right = first - sample * pixels - down * a.ow;
        Bytes<16> pack = {};
        const u16* line;
        bool inside;
        auto enter = [&] {
            i64 h = down * a.stride[0] + top;
            line = (const u16*)a.x.data + (((a.first + sample) * a.channels + channel) * a.height + h) * a.width;
            inside = sample < a.samples && h >= 0 && h < a.height;
        };
        enter();
        i64 w = right * a.stride[1] + left;
        for (int j = 0; j < PACK; ++j, w += a.stride[1]) {
            u32 pixel = inside && (u64)w < (u64)a.width ? line[w] : 0;
            pack.word[j / 2] |= pixel << (j % 2 * 16);
            if (++right < a.ow) continue;
            right = 0;
            w = left - a.stride[1];
            if (++down == a.oh) down = 0, ++sample;
            enter();
        }
        u16* y = (u16*)a.y + row * columns + first;
        if (columns % PACK == 0) {
            *(Bytes<16>*)y = pack;
        } else {
            for (int j = 0; j < PACK && first + j < columns; ++j) y[j] = (u16)(pack.word[j / 2] >> (j % 2 * 16));
        }
    }
}

// The way back: each pixel of image y sums up what x [C, kh, kw, samples, oh, ow] holds for it, in the order of the taps. A block
// takes whole planes, so that a pixel costs one short division.
KERNEL(fold_f32, ConvArgs) {
    i64 plane = a.samples * a.oh * a.ow, pixels = a.height * a.width;
    for (i64 line = blockIdx.x; line < a.samples * a.channels; line += gridDim.x) {
        i64 sample = divide(line, a.channels), channel = line - sample * a.channels;
        const float* columns = (const float*)a.x.data + channel * a.kh * a.kw * plane + sample * a.oh * a.ow;
        float bias = a.bias.data ? load<float>(a.bias, channel) : 0;
        for (i64 pixel = threadIdx.x; pixel < pixels; pixel += blockDim.x) {
            i64 down = divide(pixel, a.width), right = pixel - down * a.width;
            const float* x = columns;
            float sum = 0;
            for (i64 tap_down = 0; tap_down < a.kh; ++tap_down, x += a.kw * plane) {
                i64 h = meets(down, tap_down, a.stride[0], a.padding[0], a.dilation[0], a.oh);
                if (h < 0) continue;
                for (i64 tap_right = 0; tap_right < a.kw; ++tap_right) {
                    i64 w = meets(right, tap_right, a.stride[1], a.padding[1], a.dilation[1], a.ow);
                    if (w >= 0) sum += x[tap_right * plane + h * a.ow + w];
                }
            }
            store_as(a.y, a.out, (a.first * a.channels + line) * pixels + pixel, a.bias.data ? sum + bias : sum);
        }
    }
}
