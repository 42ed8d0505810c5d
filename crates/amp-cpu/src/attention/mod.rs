//! Scaled dot-product attention and its gradient, a block of keys at a time; the score matrix never exists.

#[cfg(test)]
mod tests;

use crate::gemm::kernel::Multiply;
use crate::output::Output;
use crate::real::{Real, computes_in_f64, load, offset_of};
use crate::{DType, Slice, Storage, View, parallel};

/// Result of [`attention`].
pub struct Attended {
    /// `[B, H, T, E]`, rounded once to the precision that was asked for.
    pub y: Storage,
    /// Logarithm of the sum of exponentials of each row of scores, `[B, H, T]`, F32 (F64 for F64 operands).
    pub lse: Storage,
}

/// Which scores count and what they are multiplied by.
#[derive(Clone, Copy, Debug)]
pub struct Scores<'a> {
    /// `[B, H, T, S]`, true where a query may attend to a key.
    pub mask: Option<View<'a>>,
    /// Whether query `t` attends to keys `0..=t` only.
    pub causal: bool,
    /// Factor of the dot products.
    pub scale: f64,
}

impl Scores<'_> {
    fn allows(&self, head: usize, query: usize, key: usize) -> bool {
        let Some(mask) = &self.mask else { return !self.causal || key <= query };
        let (shape, strides) = (&mask.layout.shape, &mask.layout.strides);
        let Slice::Bool(mask_data) = mask.data else { unreachable!("masks are Bool") };
        let at = mask.layout.offset + offset_of(head, &shape[..2], &strides[..2]);
        mask_data[at + query * strides[2] + key * strides[3]] && (!self.causal || key <= query)
    }
}

/// `softmax(scale * q · kᵀ) · v` for `q` `[B, H, T, D]`, `k` `[B, H, S, D]`, `v` `[B, H, S, E]`.
///
/// Scores, statistics and sums in F32 (F64 for F64 operands); the result is rounded once. A query that may attend to
/// no key gives zeros.
pub fn attention(q: &View, k: &View, v: &View, scores: &Scores, out: DType) -> Attended {
    if computes_in_f64(q) { forward::<f64>(q, k, v, scores, out) } else { forward::<f32>(q, k, v, scores, out) }
}

/// Gradients of [`attention`] with respect to `q`, `k` and `v`, from that of its result, the result and `lse`.
///
/// Sums in F32 (F64 for F64 operands), each rounded once to `out`.
pub fn attention_grad(
    grad: &View,
    qkv: [&View; 3],
    y: &View,
    lse: &Storage,
    scores: &Scores,
    out: DType,
) -> [Storage; 3] {
    if computes_in_f64(grad) {
        backward::<f64>(grad, qkv, y, lse, scores, out)
    } else {
        backward::<f32>(grad, qkv, y, lse, scores, out)
    }
}

fn load_head<T: Real>(view: &View, head: usize, out: &mut [T]) {
    let (shape, strides) = (&view.layout.shape, &view.layout.strides);
    let start = view.layout.offset + offset_of(head, &shape[..2], &strides[..2]);
    for (row, line) in out.chunks_exact_mut(shape[3].max(1)).enumerate() {
        load(view, start + row * strides[2], strides[3], line);
    }
}

fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    a.iter().zip(b).fold(T::default(), |sum, (&a, &b)| sum + a * b)
}

fn add_scaled<T: Real>(to: &mut [T], factor: T, from: &[T]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to += factor * from;
    }
}

fn forward<T: Multiply>(q: &View, k: &View, v: &View, scores: &Scores, out: DType) -> Attended {
    let [batch, heads, queries, width] = std::array::from_fn(|i| q.layout.shape[i]);
    let (keys, value_width) = (k.layout.shape[2], v.layout.shape[3]);
    let mut y = Storage::zeros(out, batch * heads * queries * value_width);
    let mut lse = Storage::zeros(T::DTYPE, batch * heads * queries);
    let (output, statistics) = (Output::new(&mut y), Output::new(&mut lse));
    let scale = T::from_f64(scores.scale);
    parallel::for_each(batch * heads, batch * heads * queries * keys * (width + value_width), |head| {
        let mut qs = vec![T::default(); queries * width];
        let mut ks = vec![T::default(); keys * width];
        let mut vs = vec![T::default(); keys * value_width];
        load_head(q, head, &mut qs);
        load_head(k, head, &mut ks);
        load_head(v, head, &mut vs);
        let mut row = vec![T::default(); value_width];
        for t in 0..queries {
            let score = |s: usize| dot(&qs[t * width..][..width], &ks[s * width..][..width]) * scale;
            let allowed: Vec<(usize, T)> =
                (0..keys).filter(|&s| scores.allows(head, t, s)).map(|s| (s, score(s))).collect();
            let most = allowed.iter().fold(T::NEG_INFINITY, |most, &(_, s)| if s > most { s } else { most });
            let shift = if most == T::NEG_INFINITY { T::default() } else { most };
            let mut total = T::default();
            row.fill(T::default());
            for &(s, score) in &allowed {
                let weight = (score - shift).exp();
                total += weight;
                add_scaled(&mut row, weight, &vs[s * value_width..][..value_width]);
            }
            if total != T::default() {
                row.iter_mut().for_each(|value| *value = *value / total);
            }
            let at = head * queries + t;
            let log = T::from_f64(total.to_f64().ln()) + shift;
            // SAFETY: each task has its own head.
            unsafe { output.store(at * value_width, 1, &row) };
            // SAFETY: as above.
            unsafe { statistics.store(at, 1, &[log]) };
        }
    });
    Attended { y, lse }
}

fn backward<T: Multiply>(
    grad: &View,
    [q, k, v]: [&View; 3],
    y: &View,
    lse: &Storage,
    scores: &Scores,
    out: DType,
) -> [Storage; 3] {
    let [batch, heads, queries, width] = std::array::from_fn(|i| q.layout.shape[i]);
    let (keys, value_width) = (k.layout.shape[2], v.layout.shape[3]);
    let lse = T::slice(lse.as_slice()).expect("statistics have the computing type");
    let mut result =
        [queries * width, keys * width, keys * value_width].map(|len| Storage::zeros(out, batch * heads * len));
    let [dq, dk, dv] = &mut result;
    let outputs = [Output::new(dq), Output::new(dk), Output::new(dv)];
    let scale = T::from_f64(scores.scale);
    let sizes = [queries * width, keys * width, keys * value_width, queries * value_width, queries * value_width];
    parallel::for_each(batch * heads, 3 * batch * heads * queries * keys * (width + value_width), |head| {
        let [mut qs, mut ks, mut vs, mut gs, mut ys] = sizes.map(|len| vec![T::default(); len]);
        let views = [q, k, v, grad, y];
        for (view, to) in views.iter().zip([&mut qs, &mut ks, &mut vs, &mut gs, &mut ys]) {
            load_head(view, head, to);
        }
        let [mut dq, mut dk, mut dv] = [sizes[0], sizes[1], sizes[2]].map(|len| vec![T::default(); len]);
        for t in 0..queries {
            let (query, slope) = (&qs[t * width..][..width], &gs[t * value_width..][..value_width]);
            let mean = dot(slope, &ys[t * value_width..][..value_width]);
            for s in (0..keys).filter(|&s| scores.allows(head, t, s)) {
                let (key, value) = (&ks[s * width..][..width], &vs[s * value_width..][..value_width]);
                let score = dot(query, key) * scale;
                let weight =
                    if score == T::NEG_INFINITY { T::default() } else { (score - lse[head * queries + t]).exp() };
                add_scaled(&mut dv[s * value_width..][..value_width], weight, slope);
                let slope = weight * (dot(slope, value) - mean) * scale;
                add_scaled(&mut dq[t * width..][..width], slope, key);
                add_scaled(&mut dk[s * width..][..width], slope, query);
            }
        }
        for (output, values) in outputs.iter().zip([&dq, &dk, &dv]) {
            // SAFETY: each task has its own head.
            unsafe { output.store(head * values.len(), 1, values) };
        }
    });
    result
}
