// Convolutions of 16-bit images whose channels lie together, [N, H, W, C]: what surrounds products of matrices of pixels and
// channels, which the vendor's library multiplies.
#include "common.cuh"
#include "conv.cuh"

// Blocks go over the lines of an image, threads over `each` pieces of each of its `pixels`: f(sample, line, pixel, piece).
template <class F> __device__ inline void each_piece(i64 samples, i64 lines, i64 pixels, i64 each, F f) {
    for (i64 row = blockIdx.x; row < samples * lines; row += gridDim.x) {
        i64 sample = divide(row, lines), line = row - sample * lines;
        for (i64 i = threadIdx.x; i < pixels * each; i += blockDim.x) {
            i64 pixel = divide(i, each);
            f(sample, line, pixel, i - pixel * each);
        }
    }
}

// The pixels of image x that each result sums up: y is [samples, oh, ow, kh, kw, C], zero in the padding.
template <class Piece> __device__ void pixel_unfold(const ConvArgs& a) {
    i64 each = a.channels * 2 / (i64)sizeof(Piece), taps = a.kh * a.kw;
    each_piece(a.samples, a.oh, a.ow, each, [&](i64 sample, i64 line, i64 pixel, i64 piece) {
        const Piece* x = (const Piece*)a.x.data + (a.first + sample) * a.height * a.width * each + piece;
        Piece* y = (Piece*)a.y + ((sample * a.oh + line) * a.ow + pixel) * taps * each + piece;
        i64 top = line * a.stride[0] - a.padding[0], left = pixel * a.stride[1] - a.padding[1];
        for (i64 down = 0; down < a.kh; ++down) {
            i64 h = top + down * a.dilation[0];
            bool inside = h >= 0 && h < a.height;
            for (i64 right = 0; right < a.kw; ++right, y += each) {
                i64 w = left + right * a.dilation[1];
                *y = inside && w >= 0 && w < a.width ? x[(h * a.width + w) * each] : Piece{};
            }
        }
    });
}

KERNEL(pixel_unfold_f32, ConvArgs) {
    if (a.channels % PACK == 0) pixel_unfold<Bytes<16>>(a);
    else pixel_unfold<u16>(a);
}

// The way back: pack by pack, each pixel of image y sums up what x [samples, oh, ow, kh, kw, C] holds for it, in the order of
// the taps.
KERNEL(pixel_fold_f32, ConvArgs) {
    i64 each = a.channels / PACK, taps = a.kh * a.kw;
    each_piece(a.samples, a.height, a.width, each, [&](i64 sample, i64 line, i64 pixel, i64 piece) {
        float sum[PACK] = {}, v[PACK];
        for (i64 down = 0; down < a.kh; ++down) {
            i64 h = meets(line, down, a.stride[0], a.padding[0], a.dilation[0], a.oh);
            for (i64 right = 0; h >= 0 && right < a.kw; ++right) {
                i64 w = meets(pixel, right, a.stride[1], a.padding[1], a.dilation[1], a.ow);
                if (w < 0) continue;
                load_pack(a.x, (((sample * a.oh + h) * a.ow + w) * taps + down * a.kw + right) * each + piece, v);
                for (int j = 0; j < PACK; ++j) sum[j] += v[j];
            }
        }
        i64 at = (((a.first + sample) * a.height + line) * a.width + pixel) * a.channels + piece * PACK;
        for (int j = 0; a.bias.data && j < PACK; ++j) sum[j] += load<float>(a.bias, piece * PACK + j);
        for (int j = 0; a.accumulate && j < PACK; ++j) sum[j] += ((const float*)a.y)[at + j];
        store_pack(a.y, a.out, at, sum);
    });
}
