//! Arguments of the kernels: twins of the structs of the same names in `kernels/*.cu`, field by field.

use crate::operand::Operand;
use amp_core::backend::MAX_RANK;

/// A kernel's argument: a `repr(C)` struct of numbers, addresses and such structs.
pub(crate) trait Args: Copy {}

macro_rules! args {
    ($($name:ident { $($field:ident: $type:ty,)* })*) => { $(
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name { $(pub $field: $type,)* }
        impl Args for $name {}
    )* };
}

args! {
    UnaryArgs { x: Operand, y: u64, n: i64, out: i32, op: i32, p: [f64; 2], }
    UnaryGradArgs { saved: Operand, grad: Operand, y: u64, n: i64, out: i32, op: i32, p: [f64; 2], }
    SignsArgs { x: Operand, dead: u64, y: u64, n: i64, out: i32, }
    BinaryArgs { l: Operand, r: Operand, y: u64, n: i64, out: i32, op: i32, narrow: u64, narrow_type: i32, }
    TernaryArgs { x: [Operand; 3], y: u64, n: i64, out: i32, op: i32, p: f64, }
    CopyArgs { x: Operand, y: u64, n: i64, out: i32, }
    TransposeArgs { x: Operand, y: u64, n: i64, out: i32, axis: i32, }
    CopyIntoArgs { x: Operand, y: Operand, n: i64, }
    FillArgs { y: u64, n: i64, out: i32, value: f64, }
    PutArgs { y: u64, n: i64, words: [u64; WORDS], }
    RandomArgs { y: u64, n: i64, seed: u64, offset: u64, base: u64, p: [f64; 3], out: i32, }
    ReduceArgs {
        x: Operand, kept: Operand, inner: Operand, y: u64, outputs: i64, count: i64, per_split: i64, op: i32, out: i32,
        divisor: f64, height: i32,
    }
    MomentsArgs {
        x: Operand, kept: Operand, inner: Operand, mean: u64, squares: u64, outputs: i64, count: i64, per_split: i64,
        height: i32,
    }
    VarianceArgs {
        mean: u64, squares: u64, mean_out: u64, var_out: u64, rstd_out: u64, outputs: i64, count: i64, per_split: i64,
        splits: i64, correction: f64, eps: f64, out: i32, height: i32,
    }
    ArgReduceArgs { kept: Operand, inner: Operand, y: u64, outputs: i64, count: i64, max: i32, }
    ScanArgs { x: Operand, y: u64, len: i64, inner: i64, op: i32, reverse: i32, out: i32, }
    SortArgs {
        x: Operand, order: u64, len: i64, inner: i64, padded: i64, span: i64, step: i64, descending: i32, first: i32,
    }
    SortStepArgs { sort: SortArgs, lines: i64, }
    SortedArgs { x: Operand, order: u64, values: u64, positions: u64, n: i64, len: i64, inner: i64, padded: i64, out: i32, }
    LstmArgs { from_inputs: Operand, from_state: Operand, c: Operand, states: u64, gates: u64, n: i64, width: i64, }
    LstmGradArgs {
        gates: Operand, states: Operand, c: Operand, grad: Operand, of_gates: u64, of_c: u64, n: i64, width: i64, out: i32,
    }
    CholeskyArgs { x: Operand, y: u64, n: i64, }
    LuArgs { x: Operand, y: u64, rows: u64, signs: u64, n: i64, }
    SolveTriangularArgs { a: Operand, b: Operand, x: u64, n: i64, columns: i64, tiles: i64, upper: i32, unit: i32, }
    GruArgs {
        from_inputs: Operand, from_state: Operand, h: Operand, next: u64, gates: u64, n: i64, width: i64, out: i32,
    }
    GruGradArgs {
        gates: Operand, h: Operand, grad: Operand, of_inputs: u64, of_state: u64, of_h: u64, n: i64, width: i64,
        out: [i32; 3],
    }
    SoftmaxArgs { x: Operand, y: u64, lines: i64, len: i64, inner: i64, log: i32, out: i32, }
    SoftmaxGradArgs { y: Operand, grad: Operand, dx: u64, lines: i64, len: i64, inner: i64, log: i32, out: i32, }
    CrossEntropyArgs {
        logits: Operand, targets: Operand, weight: Operand, lse: Operand, scale: Operand, loss: u64, lse_out: u64,
        dx: u64, lines: i64, classes: i64, inner: i64, ignore_index: i64, smoothing: f64, out: i32, narrow: u64,
        narrow_type: i32,
    }
    NormArgs {
        x: Operand, weight: Operand, bias: Operand, y: u64, mean: u64, var: u64, rstd: u64, n: i64, len: i64,
        channels: i64, repeat: i64, eps: f64, rms: i32, out: i32,
    }
    NormGradArgs {
        grad: Operand, x: Operand, weight: Operand, mean: u64, rstd: u64, sum_grad: u64, sum_normal: u64, dx: u64,
        parts: u64, n: i64, len: i64, channels: i64, repeat: i64, groups: i64, count: i64, per_split: i64, rms: i32,
        out: i32, narrow: u64, narrow_type: i32, onto: Operand, dead: u64,
    }
    NormReluArgs {
        x: Operand, weight: Operand, bias: Operand, residual: Operand, mean: u64, var: u64, y: u64, dead: u64, n: i64,
        channels: i64, repeat: i64, eps: f64, out: i32,
    }
    PixelMomentsArgs { x: Operand, mean: u64, squares: u64, pixels: i64, channels: i64, per_split: i64, }
    PixelNormArgs {
        x: Operand, residual: Operand, weight: Operand, bias: Operand, mean: u64, var: u64, y: u64, dead: u64, pixels: i64,
        channels: i64, eps: f64, relu: i32, out: i32,
    }
    PixelNormGradArgs {
        grad: Operand, x: Operand, weight: Operand, mean: u64, rstd: u64, sum_normal: u64, sum_grad: u64, parts: u64,
        dx: u64, narrow: u64, dead: u64, pixels: i64, channels: i64, per_split: i64, splits: i64, out: i32,
        narrow_type: i32,
    }
    CumprodGradArgs { x: Operand, grad: Operand, scratch: u64, dx: u64, lines: i64, len: i64, inner: i64, out: i32, }
    CheckArgs { index: Operand, bad: u64, n: i64, size: i64, ignored: i64, check: i64, has_ignored: i32, }
    TargetsArgs { index: Operand, y: u64, n: i64, size: i64, }
    IndexSelectArgs { x: Operand, index: Operand, y: u64, n: i64, len: i64, inner: i64, count: i64, out: i32, }
    GatherArgs {
        x: Operand, index: Operand, y: u64, n: i64, shape: [i64; MAX_RANK], steps: [i64; MAX_RANK], step: i64, size: i64,
        rank: i32, out: i32,
    }
    SegmentAddArgs {
        source: Operand, target: u64, order: u64, base: Operand, y: u64, outer: i64, count: i64, inner: i64, len: i64,
        out: i32, last: i32,
    }
    MatmulArgs {
        l: Operand, r: Operand, bias: Operand, y: u64, batch_shape: [i64; MAX_RANK], l_batch: [i64; MAX_RANK],
        r_batch: [i64; MAX_RANK], rows: i64, columns: i64, terms: i64, l_strides: [i64; 2], r_strides: [i64; 2],
        batch: i64, batch_rank: i32, out: i32, accumulate: i32, sum_batch: i32,
    }
    ConvArgs {
        x: Operand, w: Operand, grad: Operand, bias: Operand, y: u64, batch: i64, channels: i64, height: i64, width: i64,
        filters: i64, kh: i64, kw: i64, oh: i64, ow: i64, stride: [i64; 2], padding: [i64; 2], dilation: [i64; 2],
        groups: i64, per_split: i64, first: i64, samples: i64, out: i32, accumulate: i32,
    }
    PoolArgs {
        x: Operand, y: u64, indices: u64, axis: [PoolAxis; 2], images: i64, channels: i64, adaptive: i32,
        count_padding: i32, out: i32,
    }
    UpsampleArgs {
        x: Operand, y: u64, input: [i64; 2], output: [i64; 2], images: i64, channels: i64, how: i32, out: i32,
    }
    AttentionArgs {
        q: Operand, k: Operand, v: Operand, mask: Operand, y: Operand, grad: Operand, out: u64, out_k: u64, out_v: u64,
        lse: u64, delta: u64, sums: u64, sums_v: u64, heads: i64, queries: i64, keys: i64, width: i64, value_width: i64,
        scale: f64, causal: i32, dtype: i32,
    }
    FlashArgs {
        q: Heads, k: Heads, v: Heads, y: Heads, grad: Heads, out: Heads, out_k: Heads, out_v: Heads, mask: u64,
        mask_strides: [i64; 4], lse: u64, delta: u64, batch: i64, heads: i64, queries: i64, keys: i64, width: i64,
        value_width: i64, scale: f64, causal: i32, narrow: i32,
    }
    AttentionDeltaArgs { of: AttentionArgs, rows: i64, }
    SquareSumsArgs { tensor: [Gradient; TENSORS], factors: Factors, parts: u64, }
    JoinPartsArgs { parts: u64, sums: u64, per: i64, }
    AnyNonFiniteArgs { sums: u64, flag: u64, which: [i32; CHOSEN], count: i32, }
    MagnitudeArgs { x: Operand, n: i64, bad: u64, largest: u64, }
    JoinFlagsArgs { flags: [u64; FLAGS], joined: u64, count: i32, }
    NextScaleArgs {
        flags: [u64; FLAGS], state: u64, notice: u64, interval: i64, hysteresis: i64, growth: i32,
        backoff: i32, floor: i32, ceiling: i32, count: i32,
    }
    UpdateArgs {
        tensor: [Parameter; TENSORS], factors: Factors, skip: u64, rates: u64, lr: f64, momentum: f64, dampening: f64, beta1: f64,
        beta2: f64, eps: f64, weight_decay: f64, rule: i32, nesterov: i32, amsgrad: i32, decoupled: i32, centered: i32,
    }
    MoveScheduleArgs {
        factors: [f64; MOVES], skip: u64, state: u64, notice: u64, rates: u64, groups: i64, first: i64, count: i32,
    }
    ScaleOfArgs { state: u64, scale: u64, inverse: u64, }
    AverageArgs { into: [u64; 2], x: [Operand; 2], n: [i64; 2], factor: [f32; 2], counter: u64, skip: u64, share: f32, }
    CountStepsArgs { steps: [u64; CHOSEN], skip: u64, count: i32, }
}

/// Words of the host that travel with a launch.
pub(crate) const WORDS: usize = 64;

/// Tensors of one launch of the optimizer's kernels, factors of a gradient, numbers and flags of one launch.
pub(crate) const TENSORS: usize = 40;
pub(crate) const FACTORS: usize = 8;
pub(crate) const CHOSEN: usize = 400;
pub(crate) const FLAGS: usize = 64;
/// Numbers of counted steps that a move of a schedule may lead to.
pub(crate) const MOVES: usize = 65;

/// Twin of `Axis` in `pool.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PoolAxis {
    pub input: i64,
    pub output: i64,
    pub kernel: i64,
    pub stride: i64,
    pub padding: i64,
    pub dilation: i64,
}

/// Twin of `Heads` in `flash.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heads {
    pub data: u64,
    pub batch: i64,
    pub head: i64,
    pub row: i64,
    pub packed: i64,
}

/// Twin of `Gradient` in `optimizer.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gradient {
    pub data: u64,
    pub n: i64,
}

/// Twin of `Factors` in `optimizer.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factors {
    pub each: [u64; FACTORS],
    pub count: i32,
}

/// Twin of `Parameter` in `optimizer.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parameter {
    pub master: u64,
    pub grad: u64,
    pub moments: [u64; 3],
    pub copy: [u64; 2],
    pub steps: u64,
    pub n: i64,
    pub rows: u64,
    pub width: i64,
}
