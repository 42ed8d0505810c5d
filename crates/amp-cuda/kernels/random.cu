// Random fills by Philox 4x32-10: element i depends on the seed and on offset + i alone, as on the CPU, which also says why
// there are several streams.
#include "common.cuh"

struct RandomArgs {
    void* y;
    i64 n;
    u64 seed;
    u64 offset;
    const u64* base;  // seed and a number to add to the offset, or null: what a graph's replays differ in
    double p[3];  // low, width and the last value, mean and deviation, or the threshold of a mask in 1/2^32
    int out;
};

struct Block { u32 word[4]; };

// The third number of the counter.
enum Kind : u32 { UNIFORM, UNIFORM_F64, NORMAL, NORMAL_F64 };

// One block of Philox 4x32-10 (Salmon et al., 2011): key `seed`, counter `block` of the stream of a kind.
__device__ inline Block philox(u64 seed, Kind kind, u64 block) {
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
    u32 c0 = (u32)block, c1 = (u32)(block >> 32), c2 = kind, c3 = 0;
    for (int round = 0; round < 10; ++round) {
        u64 p0 = (u64)c0 * 0xD2511F53u, p1 = (u64)c2 * 0xCD9E8D57u;
        c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
        c1 = (u32)p1;
        c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
        c3 = (u32)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
}

__device__ inline u32 word(u64 seed, Kind kind, u64 index) {
    Block b = philox(seed, kind, index / 4);
    return index & 2 ? (index & 1 ? b.word[3] : b.word[2]) : (index & 1 ? b.word[1] : b.word[0]);
}

__device__ inline double unit_53(u32 high, u32 low) {
    return (double)(((u64)high << 32 | low) >> 11) / 9007199254740992.0;
}

__device__ inline double unit_32(u32 word) { return ((double)word + 0.5) / 4294967296.0; }

struct Stream { u64 seed, offset; };

__device__ inline Stream stream_of(const RandomArgs& a) {
    if (!a.base) return {a.seed, a.offset};
    return {a.base[0], a.base[1] + a.offset};
}

// Uniform on [low, low + width): what would round to the end becomes the value before it.
KERNEL(random_uniform, RandomArgs) {
    Stream s = stream_of(a);
    FOR_EACH(i, a.n) {
        u64 index = s.offset + (u64)i;
        double u;
        if (a.out == F64) {
            Block b = philox(s.seed, UNIFORM_F64, index / 2);
            u = index & 1 ? unit_53(b.word[2], b.word[3]) : unit_53(b.word[0], b.word[1]);
        } else {
            u = (double)(word(s.seed, UNIFORM, index) >> 8) / 16777216.0;
        }
        double v = a.p[0] + u * a.p[1];
        store_as(a.y, a.out, i, v > a.p[2] ? a.p[2] : v);
    }
}

// Normal by Box-Muller: an even index and the odd one after it share a radius and an angle.
KERNEL(random_normal, RandomArgs) {
    Stream s = stream_of(a);
    FOR_EACH(i, a.n) {
        u64 index = s.offset + (u64)i;
        double radius, angle;
        if (a.out == F64) {
            Block b = philox(s.seed, NORMAL_F64, index / 2);
            radius = unit_53(b.word[0], b.word[1]);
            angle = unit_53(b.word[2], b.word[3]);
        } else {
            radius = unit_32(word(s.seed, NORMAL, index & ~1ull));
            angle = unit_32(word(s.seed, NORMAL, index | 1));
        }
        radius = sqrt(-2 * log(1 - radius));
        angle *= 6.28318530717958647693;
        store_as(a.y, a.out, i, a.p[0] + a.p[1] * radius * (index & 1 ? sin(angle) : cos(angle)));
    }
}

// Truth values
KERNEL(random_mask, RandomArgs) {
    Stream s = stream_of(a);
    FOR_EACH(i, a.n) ((u8*)a.y)[i] = (double)word(s.seed, UNIFORM, s.offset + (u64)i) < a.p[0];
}
