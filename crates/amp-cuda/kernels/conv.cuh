// What the kernels around convolutions share; `common.cuh` comes before it.
#pragma once

struct ConvArgs {
    Operand x;       // image [N, C, H, W], or null data when it is what is computed
    Operand w;       // kernel [O, C / groups, kh, kw]
    Operand grad;    // result [N, O, oh, ow], for the gradients
    Operand bias;    // [O] (forward) or [C] (transposed); null data for none
    void* y;
    i64 batch, channels, height, width;
    i64 filters, kh, kw, oh, ow;
    i64 stride[2], padding[2], dilation[2];
    i64 groups;
    i64 per_split;   // weight gradient: terms of one part
    i64 first;       // unfold and fold: the samples that they are about
    i64 samples;
    int out;
    int accumulate;
};

// Position of a result along one axis that input position `at` meets at kernel position `tap`, or -1.
__device__ inline i64 meets(i64 at, i64 tap, i64 stride, i64 padding, i64 dilation, i64 size) {
    i64 p = at + padding - tap * dilation;
    if (p < 0) return -1;
    i64 q = divide_by_stride(p, stride);
    return q * stride == p && q < size ? q : -1;
}
