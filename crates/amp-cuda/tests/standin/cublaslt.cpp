// The part of cuBLASLt that the library uses, on the stand-in's memory: column-major products with F32 (F64) sums, one
// rounding of the result, bias along the rows, beta. Whatever the real one refuses is refused here too.
#include "emulation.h"
#include "common.cuh"
#include "driver.h"
#include <stdlib.h>

typedef int Status;
enum { OK = 0, NOT_INITIALIZED = 1, NO_MEMORY = 3, INVALID = 7, UNSUPPORTED = 15 };
enum { R32 = 0, R64 = 1, R16 = 2, RB16 = 14 };
enum { COMPUTE_32F = 68, COMPUTE_64F = 70 };
// How sums of split terms may be joined: in the type of the sums, or in all ways, rounded and by atomics among them.
enum { IN_SUMS = 2, ANYHOW = 7 };
enum { EPILOGUE_DEFAULT = 1, EPILOGUE_BIAS = 4, EPILOGUE_BGRADB = 512,
       EPILOGUE_GELU_AUX = 160, EPILOGUE_GELU_AUX_BIAS = 164, EPILOGUE_DGELU = 192,
       EPILOGUE_RELU_AUX_BIAS = 134, EPILOGUE_DRELU = 136 };

extern "C" {
int standin_within(uintptr_t at, size_t bytes);
int standin_bound();
void standin_count(const char* name);
int standin_relu_mode();
int standin_refuses();
int standin_wants_memory();
}

struct Desc { int compute, scale, transposed[2], epilogue; uintptr_t bias, aux; i64 aux_leading; };
struct Matrix { int type; u64 rows, columns; i64 leading; int batch; i64 stride; };
struct Preference { u64 workspace; unsigned schemes, alignment[4]; };
struct Heuristic { u64 algo[8]; size_t workspace; int state; float waves; int reserved[4]; };

static const u64 MAGIC = 0x5374616e642d696eull;

static size_t bytes_of(int type) { return type == R64 ? 8 : type == R32 ? 4 : 2; }
static int tag_of(int type) { return type == R64 ? F64 : type == R32 ? F32 : type == R16 ? F16 : BF16; }
template <class T> static Status put(T& field, const void* from, size_t bytes) {
    if (bytes != sizeof(T)) return INVALID;
    memcpy(&field, from, bytes);
    return OK;
}

// Bytes from the first element's start to the last one's end.
static size_t reach(const Matrix& m) {
    return (size_t)((m.batch - 1) * m.stride + (m.columns - 1) * m.leading + m.rows) * bytes_of(m.type);
}

static bool keeps(const Desc& d) {
    return d.epilogue == EPILOGUE_GELU_AUX || d.epilogue == EPILOGUE_GELU_AUX_BIAS || d.epilogue == EPILOGUE_DGELU;
}
// Whether the epilogue writes or reads a matrix of bits.
static bool masks(const Desc& d) { return d.epilogue == EPILOGUE_RELU_AUX_BIAS || d.epilogue == EPILOGUE_DRELU; }
static bool biased(const Desc& d) {
    return d.epilogue == EPILOGUE_BIAS || d.epilogue == EPILOGUE_GELU_AUX_BIAS || d.epilogue == EPILOGUE_RELU_AUX_BIAS;
}

// GELU by tanh and its derivative.
template <class C> static C inner(C x) { return (C)0.7978845608028654 * (x + (C)0.044715 * x * x * x); }
template <class C> static C gelu(C x) { return (C)0.5 * x * (1 + tanh(inner(x))); }
template <class C> static C gelu_slope(C x) {
    C t = tanh(inner(x));
    return (C)0.5 * (1 + t) + (C)0.5 * x * (1 - t * t) * (C)0.7978845608028654 * (1 + (C)0.134145 * x * x);
}

static bool supported(const Desc& d, const Matrix& a, const Matrix& b, const Matrix& c) {
    if (a.type != b.type) return false;
    const char* capability = getenv("STANDIN_CAPABILITY");
    if (a.type == RB16 && capability && atoi(capability) < 80) return false;
    bool wide = a.type == R64;
    if (d.compute != (wide ? COMPUTE_64F : COMPUTE_32F) || d.scale != (wide ? R64 : R32)) return false;
    if (wide && d.epilogue != EPILOGUE_DEFAULT) return false;
    if (d.epilogue == EPILOGUE_BGRADB && c.batch != 1) return false;
    if (keeps(d) && (c.batch != 1 || bytes_of(c.type) != 2 || d.aux_leading < (i64)c.rows || d.aux_leading % 8)) return false;
    if (masks(d) && (c.batch != 1 || d.aux_leading < (i64)c.rows || d.aux_leading % 128)) return false;
    return c.type == a.type || (c.type == R32 && bytes_of(a.type) == 2);
}

static bool fits(const Desc& d, const Matrix& a, const Matrix& b, const Matrix& c) {
    const Matrix* m[3] = {&a, &b, &c};
    for (auto* x : m) {
        if (x->leading < (i64)x->rows || x->batch < 1 || x->batch != c.batch || x->rows == 0 || x->columns == 0) return false;
    }
    u64 terms = d.transposed[0] ? a.rows : a.columns;
    return (d.transposed[0] ? a.columns : a.rows) == c.rows && (d.transposed[1] ? b.columns : b.rows) == terms &&
           (d.transposed[1] ? b.rows : b.columns) == c.columns;
}

// Sums of the second factor over the terms, one for each column of the result.
template <class C> static void row_sums(const Desc& d, const Matrix& b, const void* y, const Matrix& c, u64 terms) {
    for (u64 j = 0; j < c.columns; ++j) {
        C sum = 0;
        for (u64 k = 0; k < terms; ++k) sum += load_as<C>(y, tag_of(b.type), (i64)(d.transposed[1] ? k * b.leading + j : j * b.leading + k));
        store_as<C>((void*)d.bias, tag_of(c.type), (i64)j, sum);
    }
}

// ReLU as algorithms of different minds have it: NaN passes (0), becomes 0 (1), or passes but has no bit (2).
template <class C> static C relu(C x, char* bits, i64 at, int mode) {
    bool keeps = x > 0 || (mode == 0 && x != x);
    bits[at / 8] = (char)((bits[at / 8] & ~(1 << at % 8)) | (keeps << at % 8));
    return mode == 1 ? (x > 0 ? x : 0) : x <= 0 ? 0 : x;
}

template <class C> static void multiply(const Desc& d, int mode, C beta, const Matrix& a, const void* x, const Matrix& b, const void* y,
                                        const Matrix& c, void* out) {
    u64 terms = d.transposed[0] ? a.rows : a.columns;
    int left = tag_of(a.type), right = tag_of(b.type), result = tag_of(c.type);
    for (i64 n = 0; n < c.batch; ++n)
        for (u64 j = 0; j < c.columns; ++j)
            for (u64 i = 0; i < c.rows; ++i) {
                C sum = 0;
                for (u64 k = 0; k < terms; ++k) {
                    i64 p = n * a.stride + (i64)(d.transposed[0] ? i * a.leading + k : k * a.leading + i);
                    i64 q = n * b.stride + (i64)(d.transposed[1] ? k * b.leading + j : j * b.leading + k);
                    sum += load_as<C>(x, left, p) * load_as<C>(y, right, q);
                }
                i64 at = n * c.stride + (i64)(j * c.leading + i);
                if (beta != 0) sum += beta * load_as<C>(out, result, at);
                if (biased(d)) sum += load_as<C>((const void*)d.bias, result, (i64)i);
                i64 kept = (i64)j * d.aux_leading + (i64)i;
                if (d.epilogue == EPILOGUE_RELU_AUX_BIAS) {
                    sum = relu(sum, (char*)d.aux, kept, mode);
                } else if (d.epilogue == EPILOGUE_DRELU) {
                    if (!(((const char*)d.aux)[kept / 8] >> kept % 8 & 1)) sum = 0;
                } else if (d.epilogue == EPILOGUE_DGELU) {
                    sum *= gelu_slope(load_as<C>((const void*)d.aux, result, kept));
                } else if (keeps(d)) {
                    store_as<C>((void*)d.aux, result, kept, sum);
                    sum = gelu(sum);
                }
                store_as<C>(out, result, at, sum);
            }
    if (d.epilogue == EPILOGUE_BGRADB) row_sums<C>(d, b, y, c, terms);
}

extern "C" {
Status cublasLtCreate(void** handle) { if (standin_wants_memory()) return NO_MEMORY; *handle = (void*)6; return OK; }
Status cublasLtDestroy(void*) { return OK; }
Status cublasLtMatmulDescCreate(Desc** d, int compute, int scale) {
    *d = new Desc{compute, scale, {0, 0}, EPILOGUE_DEFAULT, 0, 0, 0};
    return OK;
}
Status cublasLtMatmulDescDestroy(Desc* d) { delete d; return OK; }
Status cublasLtMatmulDescSetAttribute(Desc* d, int attribute, const void* value, size_t bytes) {
    switch (attribute) {
        case 3: return put(d->transposed[0], value, bytes);
        case 4: return put(d->transposed[1], value, bytes);
        case 7: return put(d->epilogue, value, bytes);
        case 8: return put(d->bias, value, bytes);
        case 11: return put(d->aux, value, bytes);
        case 12: return put(d->aux_leading, value, bytes);
        default: return INVALID;
    }
}
Status cublasLtMatrixLayoutCreate(Matrix** m, int type, u64 rows, u64 columns, i64 leading) {
    *m = new Matrix{type, rows, columns, leading, 1, 0};
    return OK;
}
Status cublasLtMatrixLayoutDestroy(Matrix* m) { delete m; return OK; }
Status cublasLtMatrixLayoutSetAttribute(Matrix* m, int attribute, const void* value, size_t bytes) {
    return attribute == 5 ? put(m->batch, value, bytes) : attribute == 6 ? put(m->stride, value, bytes) : INVALID;
}
Status cublasLtMatmulPreferenceCreate(Preference** p) { *p = new Preference{0, ANYHOW, {256, 256, 256, 256}}; return OK; }
Status cublasLtMatmulPreferenceDestroy(Preference* p) { delete p; return OK; }
Status cublasLtMatmulPreferenceSetAttribute(Preference* p, int attribute, const void* value, size_t bytes) {
    if (attribute == 1) return put(p->workspace, value, bytes);
    if (attribute == 3) return put(p->schemes, value, bytes);
    return attribute >= 5 && attribute <= 8 ? put(p->alignment[attribute - 5], value, bytes) : INVALID;
}
Status cublasLtMatmulAlgoGetHeuristic(void*, Desc* d, Matrix* a, Matrix* b, Matrix* c, Matrix* out, Preference* p, int,
                                      Heuristic* found, int* count) {
    standin_count("cublasLtMatmulAlgoGetHeuristic");
    *count = 0;
    if (!standin_bound()) return NOT_INITIALIZED;
    if (standin_wants_memory()) return NO_MEMORY;
    if (!fits(*d, *a, *b, *out) || c != out) return INVALID;
    if (!supported(*d, *a, *b, *out)) return UNSUPPORTED;
    // The real one might take a scheme that the library does not want.
    if (p->schemes & ~IN_SUMS) return UNSUPPORTED;
    memset(found, 0, sizeof *found);
    found->algo[0] = MAGIC;
    for (int i = 0; i < 4; ++i) found->algo[1 + i] = p->alignment[i];
    found->algo[5] = standin_relu_mode();
    *count = 1;
    return OK;
}
Status cublasLtMatmul(void*, Desc* d, const void* alpha, const void* x, Matrix* a, const void* y, Matrix* b, const void* beta,
                      const void* z, Matrix* c, void* out, Matrix* od, const u64* algo, void* workspace, size_t bytes, void* stream) {
    standin_count("cublasLtMatmul");
    if (standin_refuses()) return UNSUPPORTED;
    if (z != out || c != od || !fits(*d, *a, *b, *od) || !supported(*d, *a, *b, *od) || algo[0] != MAGIC) return INVALID;
    const void* at[3] = {x, y, out};
    for (int i = 0; i < 3; ++i) if ((uintptr_t)at[i] % algo[1 + i]) return INVALID;
    if (!standin_within((uintptr_t)x, reach(*a)) || !standin_within((uintptr_t)y, reach(*b)) ||
        !standin_within((uintptr_t)out, reach(*od)) || !standin_within((uintptr_t)workspace, bytes)) return INVALID;
    size_t kept = ((od->columns - 1) * d->aux_leading + od->rows) * bytes_of(od->type);
    if (keeps(*d) && (d->aux % 16 || !standin_within(d->aux, kept))) return INVALID;
    if (masks(*d) && (d->aux % 16 || !standin_within(d->aux, od->columns * d->aux_leading / 8))) return INVALID;
    u64 vector = biased(*d) ? od->rows : d->epilogue == EPILOGUE_BGRADB ? od->columns : 0;
    if (biased(*d) && d->bias % 16) return INVALID;
    if (vector && !standin_within(d->bias, vector * bytes_of(od->type))) return INVALID;
    bool wide = a->type == R64;
    if ((wide ? *(const double*)alpha : (double)*(const float*)alpha) != 1) return INVALID;
    double scale = wide ? *(const double*)beta : (double)*(const float*)beta;
    uintptr_t needs[5] = {(uintptr_t)x, (uintptr_t)y, (uintptr_t)out, d->bias, d->aux};
    int mode = (int)algo[5];
    standin_submit(stream, [=, desc = *d, left = *a, right = *b, result = *od] {
        if (wide) multiply<double>(desc, mode, scale, left, x, right, y, result, out);
        else multiply<float>(desc, mode, (float)scale, left, x, right, y, result, out);
    }, needs, 5);
    return OK;
}
}
