//! Gradients of the normalisations.

use super::NormKind;
use super::batch::batch_norm_grad;
use super::rows::{Rows, halved, parameters};
use crate::line::{Span, store};
use crate::lockstep::Upcoming;
use crate::num::{Num, Real, in_real};
use crate::output::Output;
use crate::reduce::block::{BLOCK, Itself, Tree, dot_of, sum_of, total};
use crate::simd::{Kernel, LANES, Lanes, Level, Simd, dispatch};
use crate::split::for_chunks;
use crate::{DType, Storage, View, scratch};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Gradients of [`normalize`](crate::normalize) with respect to its arguments.
#[derive(Debug)]
pub struct NormGrads {
    /// With respect to the input.
    pub x: Storage,
    /// The same rounded once more, where that was asked for and `x` is made row by row.
    pub narrowed: Option<Storage>,
    /// With respect to the weight; F32, F64 for F64 input.
    pub weight: Storage,
    /// With respect to the bias; F32, F64 for F64 input.
    pub bias: Storage,
}

/// Gradients of [`normalize`](crate::normalize) from the gradient of its output, its input and its statistics.
///
/// The gradient of the input is added to `onto`, of the type that is computed in, if to anything, and rounded to `out`, and in
/// a copy from there to `also` (neither for statistics of batches).
/// Parameter gradients are summed in F32 (F64) over pieces of rows whose number depends on sizes alone.
pub fn normalize_grad(
    (grad, onto): (&View, Option<&View>),
    x: &View,
    mean: &View,
    rstd: &View,
    weight: Option<&View>,
    kind: NormKind,
    (out, also): (DType, Option<DType>),
) -> NormGrads {
    if kind == NormKind::Batch {
        debug_assert!(onto.is_none(), "only row by row");
        return batch_norm_grad((grad, None), x, mean, rstd, weight, out);
    }
    in_real!(x.logical, A => {
        let rows = Rows::new(x, kind);
        let rule = Rule::<A> {
            grad: Span::row_major(grad),
            x: Span::row_major(x),
            mean: parameters(Some(mean), mean.layout.count(), 0.0),
            rstd: parameters(Some(rstd), rstd.layout.count(), 0.0),
            weight: parameters(weight, rows.channels, 1.0),
            onto: onto.map(Span::row_major),
            rows,
        };
        rule.by_row(!matches!(kind, NormKind::Rms { .. }), out, also.filter(|_| out == A::DTYPE))
    })
}

struct Rule<'a, A> {
    grad: Span<'a>,
    x: Span<'a>,
    mean: Vec<A>,
    rstd: Vec<A>,
    weight: Vec<A>,
    onto: Option<Span<'a>>,
    rows: Rows,
}

impl<A: Real> Rule<'_, A> {
    fn by_row(&self, centred: bool, out: DType, also: Option<DType>) -> NormGrads {
        let Rows { rows, len, channels, .. } = self.rows;
        let (per_piece, together) = (self.rows.per_piece_with_sums(), self.rows.together());
        let mut dx = Storage::unwritten(out, rows * len);
        let mut copy = also.map(|also| Storage::unwritten(also, rows * len));
        let narrow = copy.as_mut().map(Output::new);
        let pieces = dx.len().div_ceil((per_piece * len).max(1));
        // Of each piece, from the cache of buffers: as vectors they were 120 page faults for 4096 rows of 1024.
        let mut sums = Storage::unwritten(A::DTYPE, pieces * 2 * channels);
        let mut sums = sums.as_mut_slice();
        let sums = A::same_mut(&mut sums).expect("made of this type");
        let by_piece: Vec<_> = sums.chunks_mut((2 * channels).max(1)).map(Mutex::new).collect();
        for_chunks(&mut dx, per_piece * len, &|i, mut piece| {
            let mut sums = by_piece[i].lock().unwrap_or_else(PoisonError::into_inner);
            sums.fill(A::ZERO);
            let sums = sums.split_at_mut(channels);
            let count = per_piece.min(rows - i * per_piece);
            scratch::with(4 * together * len + channels, |buffer: &mut [A]| {
                let (g, rest) = buffer.split_at_mut(together * len);
                let (x, rest) = rest.split_at_mut(together * len);
                let (normal, rest) = rest.split_at_mut(together * len);
                let (to, weight) = rest.split_at_mut(together * len);
                // In whole cache lines: with vectors that lie across two of them rows of 1024 take a tenth longer.
                weight.copy_from_slice(&self.weight);
                for j in (0..count).step_by(together) {
                    let (row, size) = (i * per_piece + j, together.min(count - j) * len);
                    let (g, x) = (self.grad.read(row * len, size, g), self.x.read(row * len, size, x));
                    store(&mut piece.range(j * len, size), &mut to[..size], |to| {
                        self.row(row, centred, (g, x, weight), normal, to, (&mut *sums.0, &mut *sums.1));
                        if let Some(onto) = &self.onto {
                            dispatch(Onto { earlier: onto.read(row * len, size, normal), to });
                        }
                        if let Some(narrow) = narrow {
                            // SAFETY: each row has its own elements.
                            unsafe { narrow.store(row * len, 1, to) };
                        }
                    });
                }
            });
        });
        let sums = by_piece.into_iter().map(|sums| sums.into_inner().unwrap_or_else(PoisonError::into_inner));
        let mut weight =
            halved(sums.collect(), Num::add).map_or_else(|| vec![A::ZERO; 2 * channels], |all| all.to_vec());
        let bias = weight.split_off(channels);
        NormGrads { x: dx, narrowed: copy, weight: A::storage(weight), bias: A::storage(bias) }
    }

    /// The gradient `to` of one row, or of those that are handled together, and what it adds to the sums of the parameters.
    fn row(
        &self,
        row: usize,
        centred: bool,
        (g, x, weight): (&[A], &[A], &[A]),
        normal: &mut [A],
        to: &mut [A],
        sums: (&mut [A], &mut [A]),
    ) {
        let first = self.rows.first_channel(row);
        let weight = &weight[first..];
        let added = (&mut sums.0[first..], &mut sums.1[first..]);
        match self.rows.repeat {
            1 => {
                let spans = [Some(&self.grad), Some(&self.x), self.onto.as_ref()];
                let next = spans.map(|span| span.map_or_else(Upcoming::default, |span| self.rows.after(row, span)));
                let statistics = (&self.mean[row..], &self.rstd[row..]);
                dispatch(ElementRows { len: self.rows.len, g, x, next, to, weight, statistics, centred, sums: added });
            }
            repeat => {
                let statistics = (&self.mean[row..=row], &self.rstd[row..=row]);
                dispatch(ParameterGradients { g, x, normal, statistics, repeat, weight: added.0, bias: added.1 });
                dispatch(InputGradient { g, to, normal, weight, repeat: repeat.max(1), rstd: self.rstd[row], centred });
            }
        }
    }
}

/// `to ← earlier + to`
///
/// In a step of GPT or ViT every layer norm's gradient but one joins that of a residual. Beside a pass of its own, which reads
/// and writes twice as much, 0.8 % of such a step in BF16 is saved (two threads of Zen 5, from the products' share of the time).
struct Onto<'a, A> {
    earlier: &'a [A],
    to: &'a mut [A],
}

impl<A: Real> Kernel for Onto<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        self.to.iter_mut().zip(self.earlier).for_each(|(to, &earlier)| *to = earlier + *to);
    }
}

/// A row whose elements each have a parameter of their own: `Σ g · normal` and `Σ g` are added to the parameters' sums, and
/// `to ← rstd (w g - mean(w g) - normal · mean(w g normal))`, without the first mean unless `centred`.
///
/// Two passes over rows that the first one brings into the L1 cache. The next row is prefetched, a line with each vector: all of
/// it at once is waited for (4096 rows of 1024 F32 took two threads of a Xeon 1.35 ms, and take 1.08). More in
/// `benches/record/findings.md`.
struct ElementRow<'a, A> {
    g: &'a [A],
    x: &'a [A],
    /// Where the same of a later row lie, and what is added to it.
    next: [Upcoming; 3],
    to: &'a mut [A],
    weight: &'a [A],
    mean: A,
    rstd: A,
    centred: bool,
    sums: (&'a mut [A], &'a mut [A]),
}

impl<A: Real> ElementRow<'_, A> {
    /// What [`Self::block`] gives of all blocks; one alone needs no tree.
    #[inline(always)]
    fn of_all_blocks<S: Simd>(&mut self) -> [A; 2] {
        let len = self.g.len();
        if len <= BLOCK {
            return self.block::<S>(0..len);
        }
        let (mut grads, mut projections) = (Tree::new(A::ZERO), Tree::new(A::ZERO));
        for start in (0..len).step_by(BLOCK) {
            let [grad, projection] = self.block::<S>(start..len.min(start + BLOCK));
            grads.push(grad, Num::add);
            projections.push(projection, Num::add);
        }
        [grads.finish(Num::add), projections.finish(Num::add)]
    }

    #[inline(always)]
    fn run<S: Simd>(mut self) {
        let [grad, projection] = self.of_all_blocks::<S>();
        let Self { g, x, to, weight, mean, rstd, centred, .. } = self;
        let count = A::of(g.len() as f64);
        let (grad_mean, projection) = (if centred { grad / count } else { A::ZERO }, projection / count);
        for (((to, &g), &x), &w) in to.iter_mut().zip(g).zip(x).zip(weight) {
            *to = (g * w - grad_mean - (x - mean) * rstd * projection) * rstd;
        }
    }

    /// Adds a block's share to the parameters' sums; returns `Σ w g` and `Σ w g normal`.
    #[inline(always)]
    fn block<S: Simd>(&mut self, at: Range<usize>) -> [A; 2] {
        let ((g, g_rest), (x, x_rest)) = (self.g[at.clone()].as_chunks::<LANES>(), self.x[at.clone()].as_chunks());
        let (weight, weight_rest) = self.weight[at.clone()].as_chunks();
        let (dw, dw_rest) = self.sums.0[at.clone()].as_chunks_mut();
        let (db, db_rest) = self.sums.1[at.clone()].as_chunks_mut();
        let (mean, rstd) = (A::Lanes::<S>::splat(self.mean), A::Lanes::<S>::splat(self.rstd));
        let mut sums = [A::Lanes::<S>::splat(A::ZERO); 2];
        let places = at.step_by(LANES);
        for ((((g, x), w), (dw, db)), at) in g.iter().zip(x).zip(weight).zip(dw.iter_mut().zip(db)).zip(places) {
            self.next[0].prefetch(at);
            self.next[1].prefetch(at);
            self.next[2].prefetch(at);
            let (g, normal) = (A::Lanes::<S>::load(g), (A::Lanes::<S>::load(x) - mean) * rstd);
            g.mul_add(normal, Lanes::load(dw)).store(dw);
            (g + Lanes::load(db)).store(db);
            let weighted = g * Lanes::load(w);
            sums = [sums[0] + weighted, weighted.mul_add(normal, sums[1])];
        }
        let mut sums = [total::<S, A>(sums[0]), total::<S, A>(sums[1])];
        for (((&g, &x), &w), (dw, db)) in
            g_rest.iter().zip(x_rest).zip(weight_rest).zip(dw_rest.iter_mut().zip(db_rest))
        {
            let normal = (x - self.mean) * self.rstd;
            *dw += g * normal;
            *db += g;
            sums = [sums[0] + g * w, sums[1] + g * w * normal];
        }
        sums
    }
}

/// [`ElementRow`]s, one after the other.
struct ElementRows<'a, A> {
    /// Elements of each.
    len: usize,
    g: &'a [A],
    x: &'a [A],
    next: [Upcoming; 3],
    to: &'a mut [A],
    weight: &'a [A],
    /// Means and their like, from the first row's on.
    statistics: (&'a [A], &'a [A]),
    centred: bool,
    sums: (&'a mut [A], &'a mut [A]),
}

impl<A: Real> Kernel for ElementRows<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { len, g, x, next, to, weight, statistics: (means, rstds), centred, sums } = self;
        let rows = g.chunks_exact(len).zip(x.chunks_exact(len)).zip(to.chunks_exact_mut(len));
        for (j, (((g, x), to), (&mean, &rstd))) in rows.zip(means.iter().zip(rstds)).enumerate() {
            let next = next.map(|next| next.moved(j * len));
            ElementRow { g, x, next, to, weight, mean, rstd, centred, sums: (&mut *sums.0, &mut *sums.1) }.run::<S>();
        }
    }
}

/// Normalises a row and adds `Σ g · normal` and `Σ g` of each parameter's elements.
struct ParameterGradients<'a, A> {
    g: &'a [A],
    x: &'a [A],
    normal: &'a mut [A],
    statistics: (&'a [A], &'a [A]),
    repeat: usize,
    weight: &'a mut [A],
    bias: &'a mut [A],
}

impl<A: Real> Kernel for ParameterGradients<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { g, x, normal, statistics: (means, rstds), repeat, weight, bias } = self;
        match (means, rstds) {
            ([mean], [rstd]) => normal.iter_mut().zip(x).for_each(|(n, &x)| *n = (x - *mean) * *rstd),
            _ if repeat == 1 => {
                for (((n, &x), &mean), &rstd) in normal.iter_mut().zip(x).zip(means).zip(rstds) {
                    *n = (x - mean) * rstd;
                }
            }
            _ => {
                let runs = normal.chunks_mut(repeat).zip(x.chunks(repeat));
                for (((normal, x), &mean), &rstd) in runs.zip(means).zip(rstds) {
                    normal.iter_mut().zip(x).for_each(|(n, &x)| *n = (x - mean) * rstd);
                }
            }
        }
        if repeat == 1 {
            for ((w, b), (&g, &n)) in weight.iter_mut().zip(bias).zip(g.iter().zip(&*normal)) {
                *w += g * n;
                *b += g;
            }
        } else {
            for ((w, b), (g, n)) in weight.iter_mut().zip(bias).zip(g.chunks(repeat).zip(normal.chunks(repeat))) {
                *w += dot_of::<S, A>(g, Itself, n);
                *b += sum_of::<S, A>(g, Itself);
            }
        }
    }
}

/// `to ← rstd (w g - mean(w g) - normal · mean(w g normal))`, without the first mean unless `centred`.
struct InputGradient<'a, A> {
    g: &'a [A],
    to: &'a mut [A],
    normal: &'a [A],
    weight: &'a [A],
    repeat: usize,
    rstd: A,
    centred: bool,
}

impl<A: Real> Kernel for InputGradient<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { g, to, normal, weight, repeat, rstd, centred } = self;
        for ((to, g), &w) in to.chunks_mut(repeat).zip(g.chunks(repeat)).zip(weight) {
            to.iter_mut().zip(g).for_each(|(to, &g)| *to = g * w);
        }
        let count = A::of(to.len() as f64);
        let grad_mean = if centred { sum_of::<S, A>(to, Itself) / count } else { A::ZERO };
        let projection = dot_of::<S, A>(to, Itself, normal) / count;
        to.iter_mut().zip(normal).for_each(|(g, &n)| *g = (*g - grad_mean - n * projection) * rstd);
    }
}
