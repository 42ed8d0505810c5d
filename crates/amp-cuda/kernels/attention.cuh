// What attention.cu and flash.cuh have in common: which pairs of a query and a key there are.
#pragma once

// Whether the pair lies within the scores, mask aside.
template <class Args> __device__ inline bool within(const Args& a, i64 query, i64 key) {
    return query < a.queries && key < a.keys && !(a.causal && key > query);
}

// What scores are relative to: a row whose largest score, or log-sum-exp, is -infinity has no weights, relative to anything.
template <class C> __device__ inline C finite_shift(C most) { return most == Limits<C>::least() ? (C)0 : most; }

// End of the keys that queries before `end` look at.
template <class Args> __device__ inline i64 keys_of(const Args& a, i64 end) {
    return a.causal && end < a.keys ? end : a.keys;
}
