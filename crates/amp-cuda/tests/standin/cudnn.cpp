// The part of cuDNN that the library uses, on the stand-in's memory: convolutions of tensors in row-major order, or with their
// channels last, and their gradients, with F32 (F64) sums and one rounding of the result. What the real one documents as unsupported is refused here too: tensors
// of different types and orders, TF32, algorithms that sum in another order, and addresses that tensor cores do not read 16 bytes from.
#include "emulation.h"
#include "common.cuh"
#include "driver.h"
#include <stdlib.h>

typedef int Status;
enum { OK = 0, NOT_INITIALIZED = 1001, BAD_PARAM = 2000, UNSUPPORTED = 3000, NO_MEMORY = 4004 };
enum { FLOAT = 0, DOUBLE = 1, HALF = 2, BFLOAT16 = 9 };
enum { CROSS_CORRELATION = 1, TENSOR_OP_MATH = 1, FMA_MATH = 3, IDENTITY = 5, NCHW = 0, NHWC = 1, PRECOMP_GEMM = 1, ALGO_1 = 1 };

extern "C" {
int standin_within(uintptr_t at, size_t bytes);
int standin_bound();
void standin_count(const char* name);
int standin_refuses();
int standin_wants_memory();
}

struct Tensor { int type, size[4], format; };
struct Convolution { int pad[2], stride[2], dilation[2], mode, compute, groups, math; };
struct Activation { int mode; };
struct Handle { void* stream; };

static int tag_of(int type) { return type == DOUBLE ? F64 : type == FLOAT ? F32 : type == HALF ? F16 : BF16; }
static size_t bytes_of(const Tensor& t) {
    size_t n = size_of(tag_of(t.type));
    for (int s : t.size) n *= s;
    return n;
}
static i64 at(const Tensor& t, i64 a, i64 b, i64 c, i64 d) {
    if (t.format == NHWC) return ((a * t.size[2] + c) * t.size[3] + d) * t.size[1] + b;
    return ((a * t.size[1] + b) * t.size[2] + c) * t.size[3] + d;
}

static bool supported(const Tensor& x, const Tensor& w, const Tensor& y, const Convolution& c) {
    const char* capability = getenv("STANDIN_CAPABILITY");
    if (x.type == BFLOAT16 && capability && atoi(capability) < 80) return false;
    bool half = x.type == HALF || x.type == BFLOAT16;
    if (x.format != w.format || x.format != y.format) return false;
    if (x.type != w.type || x.type != y.type || c.compute != (x.type == DOUBLE ? DOUBLE : FLOAT)) return false;
    return c.mode == CROSS_CORRELATION && c.math == (half ? TENSOR_OP_MATH : FMA_MATH);
}

static bool fits(const Tensor& x, const Tensor& w, const Tensor& y, const Convolution& c) {
    for (int i = 0; i < 2; ++i) {
        int extent = c.dilation[i] * (w.size[2 + i] - 1) + 1, padded = x.size[2 + i] + 2 * c.pad[i];
        if (c.stride[i] < 1 || c.dilation[i] < 1 || padded < extent || (padded - extent) / c.stride[i] + 1 != y.size[2 + i]) return false;
    }
    return c.groups > 0 && x.size[0] == y.size[0] && x.size[1] == w.size[1] * c.groups && y.size[1] == w.size[0] && w.size[0] % c.groups == 0;
}

// Calls `term` with the places of every product of image and kernel, and of the result that it belongs to.
template <class Term> static void products(const Tensor& x, const Tensor& w, const Tensor& y, const Convolution& c, Term term) {
    int per = w.size[0] / c.groups;
    for (i64 n = 0; n < y.size[0]; ++n) for (i64 o = 0; o < y.size[1]; ++o) for (i64 r = 0; r < y.size[2]; ++r) for (i64 s = 0; s < y.size[3]; ++s)
        for (i64 k = 0; k < w.size[1]; ++k) for (i64 i = 0; i < w.size[2]; ++i) for (i64 j = 0; j < w.size[3]; ++j) {
            i64 row = r * c.stride[0] + i * c.dilation[0] - c.pad[0], column = s * c.stride[1] + j * c.dilation[1] - c.pad[1];
            if (row < 0 || column < 0 || row >= x.size[2] || column >= x.size[3]) continue;
            term(at(x, n, o / per * w.size[1] + k, row, column), at(w, o, k, i, j), at(y, n, o, r, s));
        }
}

// One of the three tensors from the other two, with bias or what was there.
enum { RESULT, IMAGE, KERNEL };
struct Work {
    int wanted;
    double beta;
    Tensor x, w, y;
    Convolution c;
    const void *image, *kernel, *result, *bias;
};
template <class C> static void compute(const Work& k) {
    const Tensor& out = k.wanted == RESULT ? k.y : k.wanted == IMAGE ? k.x : k.w;
    void* to = (void*)(k.wanted == RESULT ? k.result : k.wanted == IMAGE ? k.image : k.kernel);
    int type = tag_of(out.type), read = tag_of(k.wanted == RESULT ? k.x.type : k.y.type);
    size_t count = bytes_of(out) / size_of(type), plane = (size_t)out.size[2] * out.size[3];
    C* sums = (C*)calloc(count, sizeof(C));
    products(k.x, k.w, k.y, k.c, [&](i64 x, i64 w, i64 y) {
        if (k.wanted == RESULT) sums[y] += load_as<C>(k.image, read, x) * load_as<C>(k.kernel, read, w);
        else if (k.wanted == IMAGE) sums[x] += load_as<C>(k.result, read, y) * load_as<C>(k.kernel, read, w);
        else sums[w] += load_as<C>(k.image, read, x) * load_as<C>(k.result, read, y);
    });
    for (size_t i = 0; i < count; ++i) {
        if (k.bias) sums[i] += load_as<C>(k.bias, type, (i64)((out.format == NHWC ? i : i / plane) % out.size[1]));
        if (k.beta != 0) sums[i] += (C)k.beta * load_as<C>(to, type, (i64)i);
        store_as<C>(to, type, (i64)i, sums[i]);
    }
    free(sums);
}

static double scalar(const void* p, const Tensor& x) { return x.type == DOUBLE ? *(const double*)p : (double)*(const float*)p; }

static Status submit(Handle* h, const Work& k, const void* alpha, const void* workspace, size_t bytes) {
    standin_count("cudnnConvolution");
    if (standin_refuses()) return UNSUPPORTED;
    if (!supported(k.x, k.w, k.y, k.c) || !fits(k.x, k.w, k.y, k.c)) return UNSUPPORTED;
    if (scalar(alpha, k.x) != 1 || bytes != 512 || !standin_within((uintptr_t)workspace, bytes)) return BAD_PARAM;
    if (((uintptr_t)k.image | (uintptr_t)k.kernel | (uintptr_t)k.result | (uintptr_t)k.bias) % 16) return BAD_PARAM;
    if (!standin_within((uintptr_t)k.image, bytes_of(k.x)) || !standin_within((uintptr_t)k.kernel, bytes_of(k.w)) ||
        !standin_within((uintptr_t)k.result, bytes_of(k.y))) return BAD_PARAM;
    uintptr_t needs[5] = {(uintptr_t)k.image, (uintptr_t)k.kernel, (uintptr_t)k.result, (uintptr_t)k.bias, (uintptr_t)workspace};
    standin_submit(h->stream, [k] { k.x.type == DOUBLE ? compute<double>(k) : compute<float>(k); }, needs, 5);
    return OK;
}

static Status size(const Tensor* x, const Tensor* w, const Tensor* y, const Convolution* c, size_t* bytes) {
    standin_count("cudnnGetConvolutionWorkspaceSize");
    *bytes = 512;
    if (!standin_bound()) return NOT_INITIALIZED;
    if (standin_wants_memory()) return NO_MEMORY;
    return supported(*x, *w, *y, *c) && fits(*x, *w, *y, *c) ? OK : UNSUPPORTED;
}

extern "C" {
size_t cudnnGetVersion() { const char* v = getenv("STANDIN_CUDNN"); return v ? atoi(v) : 91000; }
const char* cudnnGetErrorString(Status s) { return s == UNSUPPORTED ? "not supported" : "bad parameter"; }
Status cudnnCreate(Handle** h) { if (standin_wants_memory()) return NO_MEMORY; *h = new Handle{nullptr}; return OK; }
Status cudnnDestroy(Handle* h) { delete h; return OK; }
Status cudnnSetStream(Handle* h, void* stream) { h->stream = stream; return OK; }
Status cudnnCreateTensorDescriptor(Tensor** t) { *t = new Tensor{}; return OK; }
Status cudnnDestroyTensorDescriptor(Tensor* t) { delete t; return OK; }
Status cudnnSetTensor4dDescriptor(Tensor* t, int format, int type, int n, int c, int h, int w) {
    if ((format != NCHW && format != NHWC) || n < 1 || c < 1 || h < 1 || w < 1) return BAD_PARAM;
    *t = Tensor{type, {n, c, h, w}, format};
    return OK;
}
Status cudnnCreateFilterDescriptor(Tensor** t) { return cudnnCreateTensorDescriptor(t); }
Status cudnnDestroyFilterDescriptor(Tensor* t) { delete t; return OK; }
Status cudnnSetFilter4dDescriptor(Tensor* t, int type, int format, int k, int c, int h, int w) {
    return cudnnSetTensor4dDescriptor(t, format, type, k, c, h, w);
}
Status cudnnCreateConvolutionDescriptor(Convolution** c) { *c = new Convolution{}; (*c)->groups = 1; return OK; }
Status cudnnDestroyConvolutionDescriptor(Convolution* c) { delete c; return OK; }
Status cudnnSetConvolution2dDescriptor(Convolution* c, int ph, int pw, int u, int v, int dh, int dw, int mode, int compute) {
    *c = Convolution{{ph, pw}, {u, v}, {dh, dw}, mode, compute, c->groups, c->math};
    return OK;
}
Status cudnnSetConvolutionMathType(Convolution* c, int math) { c->math = math; return OK; }
Status cudnnSetConvolutionGroupCount(Convolution* c, int groups) { c->groups = groups; return OK; }
Status cudnnCreateActivationDescriptor(Activation** a) { *a = new Activation{}; return OK; }
Status cudnnDestroyActivationDescriptor(Activation* a) { delete a; return OK; }
Status cudnnSetActivationDescriptor(Activation* a, int mode, int, double) { a->mode = mode; return OK; }

Status cudnnGetConvolutionForwardWorkspaceSize(Handle*, Tensor* x, Tensor* w, Convolution* c, Tensor* y, int algo, size_t* bytes) {
    return algo == PRECOMP_GEMM ? size(x, w, y, c, bytes) : UNSUPPORTED;
}
Status cudnnGetConvolutionBackwardDataWorkspaceSize(Handle*, Tensor* w, Tensor* y, Convolution* c, Tensor* x, int algo, size_t* bytes) {
    return algo == ALGO_1 ? size(x, w, y, c, bytes) : UNSUPPORTED;
}
Status cudnnGetConvolutionBackwardFilterWorkspaceSize(Handle*, Tensor* x, Tensor* y, Convolution* c, Tensor* w, int algo, size_t* bytes) {
    return algo == ALGO_1 ? size(x, w, y, c, bytes) : UNSUPPORTED;
}
Status cudnnConvolutionForward(Handle* h, const void* alpha, Tensor* x, const void* image, Tensor* w, const void* kernel, Convolution* c,
                               int algo, void* workspace, size_t bytes, const void* beta, Tensor* y, void* result) {
    if (algo != PRECOMP_GEMM) return UNSUPPORTED;
    return submit(h, Work{RESULT, scalar(beta, *x), *x, *w, *y, *c, image, kernel, result, nullptr}, alpha, workspace, bytes);
}
Status cudnnConvolutionBiasActivationForward(Handle* h, const void* alpha, Tensor* x, const void* image, Tensor* w, const void* kernel,
                                             Convolution* c, int algo, void* workspace, size_t bytes, const void* alpha2, Tensor* zd,
                                             const void* z, Tensor* b, const void* bias, Activation* a, Tensor* y, void* result) {
    bool plain = a->mode == IDENTITY && algo == PRECOMP_GEMM && scalar(alpha2, *x) == 0 && z == result && zd == y;
    bool vector = b->type == y->type && b->size[1] == y->size[1] && bytes_of(*b) == b->size[1] * (size_t)size_of(tag_of(b->type));
    if (!plain) return UNSUPPORTED;
    if (!vector || !standin_within((uintptr_t)bias, bytes_of(*b))) return BAD_PARAM;
    return submit(h, Work{RESULT, 0, *x, *w, *y, *c, image, kernel, result, bias}, alpha, workspace, bytes);
}
Status cudnnConvolutionBackwardData(Handle* h, const void* alpha, Tensor* w, const void* kernel, Tensor* y, const void* result, Convolution* c,
                                    int algo, void* workspace, size_t bytes, const void* beta, Tensor* x, void* image) {
    if (algo != ALGO_1) return UNSUPPORTED;
    return submit(h, Work{IMAGE, scalar(beta, *x), *x, *w, *y, *c, image, kernel, result, nullptr}, alpha, workspace, bytes);
}
Status cudnnConvolutionBackwardFilter(Handle* h, const void* alpha, Tensor* x, const void* image, Tensor* y, const void* result, Convolution* c,
                                      int algo, void* workspace, size_t bytes, const void* beta, Tensor* w, void* kernel) {
    if (algo != ALGO_1) return UNSUPPORTED;
    return submit(h, Work{KERNEL, scalar(beta, *x), *x, *w, *y, *c, image, kernel, result, nullptr}, alpha, workspace, bytes);
}
}
