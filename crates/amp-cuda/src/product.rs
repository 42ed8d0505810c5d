//! Matrix products on cuBLASLt: which ones it can do, and the plans of those that were done before.

use crate::args::MatmulArgs;
use crate::device::Gpu;
use crate::launch::lt::{unsupported, wants_memory};
use crate::launch::{Lt, Plan};
use crate::library::Unopened;
use crate::operand::{Operand, tag};
use amp_core::Result;
use amp_core::backend::DType;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};

/// A product as cuBLASLt counts it, column-major: its first factor is our right one, its rows are our columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Product {
    /// Rows and columns of the result, and the terms of each element's sum.
    pub sizes: [u64; 3],
    pub batch: i32,
    /// Whether the first and the second factor lie row-major in memory.
    pub transposed: [bool; 2],
    /// Distances of columns and of matrices: first factor, second factor, result.
    pub leading: [i64; 3],
    pub batch_strides: [i64; 3],
    /// Bytes that divide the addresses.
    pub alignments: [u32; 3],
    /// Element types of the factors and of the result.
    pub types: [DType; 2],
    pub epilogue: Epilogue,
}

/// What is done besides the product.
///
/// Of the activations these are ReLU and GELU's approximation by tanh, which cuBLASLt computes to the precision of 16 bits.
/// Whether its ReLU hides NaN, which has to reach the loss scale's check, is documented nowhere: `ops/epilogue.rs` tries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Epilogue {
    Nothing,
    /// A vector is added to every row of our result.
    Bias,
    /// The rows of our left factor are summed up.
    Sums,
    /// The result is kept, with a vector added to every row or without, and its GELU is the other result.
    Gelu {
        bias: bool,
    },
    /// The result is multiplied by GELU's derivative at what was kept.
    GeluGrad,
    /// A vector is added to every row, and of the sums' ReLU is kept, in one bit each, where it lets gradients pass.
    Relu,
    /// The result is 0 where what was kept says so.
    ReluGrad,
}

/// Where a product's factors and result are, and the vector and the second result of its epilogue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub matrices: [u64; 3],
    pub vector: u64,
    pub kept: u64,
}

/// Factors' and results' types that cuBLASLt multiplies with F32 (F64) sums.
const TYPES: [[DType; 2]; 6] = [
    [DType::F16, DType::F16],
    [DType::F16, DType::F32],
    [DType::BF16, DType::BF16],
    [DType::BF16, DType::F32],
    [DType::F32, DType::F32],
    [DType::F64, DType::F64],
];

impl Product {
    /// The product that `args` asks for, if cuBLASLt can do it on the operands as they lie in memory.
    pub fn new(args: &MatmulArgs) -> Option<(Self, Addresses)> {
        let Flat { rows, terms, batch, l_batch, r_batch } = Flat::new(args)?;
        if [rows, args.columns, terms, batch].contains(&0) {
            return None;
        }
        let types = *TYPES.iter().find(|t| {
            let (input, output) = (tag(t[0]), tag(t[1]));
            [&args.l, &args.r].iter().all(|x| x.stored == input && x.rounds < 0) && args.out == output
        })?;
        let bias = args.bias.data != 0;
        if bias && !(takes_bias(&args.bias, types[1]) && args.accumulate == 0) {
            return None;
        }
        let (l_transposed, l_leading) = matrix([rows, terms], args.l_strides)?;
        let (r_transposed, r_leading) = matrix([terms, args.columns], args.r_strides)?;
        let matrices = [args.r.data, args.l.data, args.y];
        let product = Self {
            sizes: [args.columns as u64, rows as u64, terms as u64],
            batch: i32::try_from(batch).ok()?,
            transposed: [r_transposed, l_transposed],
            leading: [r_leading, l_leading, args.columns],
            batch_strides: [r_batch, l_batch, rows * args.columns],
            alignments: matrices.map(alignment),
            types,
            epilogue: if bias { Epilogue::Bias } else { Epilogue::Nothing },
        };
        Some((product, Addresses { matrices, vector: args.bias.data, kept: 0 }))
    }

    /// The same with the sums of the left factor's rows, if it is one product of matrices.
    pub fn with_sums(self, at: Addresses, sums: u64) -> Option<(Self, Addresses)> {
        let single = self.batch == 1 && self.epilogue == Epilogue::Nothing;
        single.then_some((Self { epilogue: Epilogue::Sums, ..self }, Addresses { vector: sums, ..at }))
    }

    /// The same with GELU's approximation of the result, which is kept at `kept`, or with `backward` times its derivative at what
    /// lies there; `None` but for 16-bit results of one product whose rows and addresses cuBLASLt takes.
    pub fn with_gelu(self, at: Addresses, kept: u64, backward: bool) -> Option<(Self, Addresses)> {
        let epilogue = match (self.epilogue, backward) {
            (Epilogue::Nothing, true) => Epilogue::GeluGrad,
            (Epilogue::Nothing, false) => Epilogue::Gelu { bias: false },
            (Epilogue::Bias, false) => Epilogue::Gelu { bias: true },
            _ => return None,
        };
        let aligned = self.leading[2] % 8 == 0 && kept.is_multiple_of(16);
        let taken = self.batch == 1 && self.types[1].is_half() && aligned;
        taken.then_some((Self { epilogue, ..self }, Addresses { kept, ..at }))
    }

    /// The same with ReLU of the result, which keeps a bit of each element at `kept`, or with `backward` where these let it
    /// pass; `None` but for one product with a bias (without, backward) whose rows are whole bytes of bits.
    pub fn with_relu(self, at: Addresses, kept: u64, backward: bool) -> Option<(Self, Addresses)> {
        let epilogue = match (self.epilogue, backward) {
            (Epilogue::Bias, false) => Epilogue::Relu,
            (Epilogue::Nothing, true) => Epilogue::ReluGrad,
            _ => return None,
        };
        let taken = self.batch == 1 && self.sizes[0].is_multiple_of(8) && kept.is_multiple_of(16);
        taken.then_some((Self { epilogue, ..self }, Addresses { kept, ..at }))
    }

    /// Distance of the columns of what the epilogue keeps, in elements or bits.
    pub fn kept_leading(&self) -> i64 {
        match self.epilogue {
            Epilogue::Relu | Epilogue::ReluGrad => self.sizes[0].next_multiple_of(128) as i64,
            _ => self.leading[2],
        }
    }

    /// Bytes of the bits that ReLU keeps.
    pub fn kept_bytes(&self) -> usize {
        (self.sizes[0].next_multiple_of(128) / 8 * self.sizes[1]) as usize
    }

    /// Rows and columns in memory of the first factor, the second factor or the result.
    pub fn shape(&self, i: usize) -> [u64; 2] {
        let [rows, columns, terms] = self.sizes;
        let shape = [[rows, terms], [terms, columns], [rows, columns]][i];
        if i < 2 && self.transposed[i] { [shape[1], shape[0]] } else { shape }
    }
}

/// A product whose batch is one dimension, or none where it is part of the rows or of the sum.
struct Flat {
    rows: i64,
    terms: i64,
    batch: i64,
    l_batch: i64,
    r_batch: i64,
}

impl Flat {
    fn new(args: &MatmulArgs) -> Option<Self> {
        let (batch, [l_batch, r_batch]) = merged_batch(args)?;
        let flat = Self { rows: args.rows, terms: args.terms, batch, l_batch, r_batch };
        if batch == 1 {
            return Some(flat);
        }
        if args.sum_batch != 0 {
            let follows = l_batch == args.terms * args.l_strides[1] && r_batch == args.terms * args.r_strides[0];
            return follows.then_some(Self { terms: args.terms * batch, batch: 1, ..flat });
        }
        if r_batch == 0 && l_batch == args.rows * args.l_strides[0] {
            return Some(Self { rows: args.rows * batch, batch: 1, ..flat });
        }
        Some(flat)
    }
}

/// The batch's dimensions as one, if both operands can be walked so: its size and distances.
fn merged_batch(args: &MatmulArgs) -> Option<(i64, [i64; 2])> {
    let (mut size, mut steps) = (1, [0; 2]);
    for d in (0..args.batch_rank as usize).rev().filter(|&d| args.batch_shape[d] != 1) {
        let strides = [args.l_batch[d], args.r_batch[d]];
        if size == 1 {
            steps = strides;
        } else if strides != steps.map(|s| s * size) {
            return None;
        }
        size *= args.batch_shape[d];
    }
    Some((size, steps))
}

/// Whether a row-major `[rows, columns]` matrix with these strides lies transposed in memory, and how far its rows (then
/// its columns) are apart; `None` when neither lies side by side.
fn matrix([rows, columns]: [i64; 2], [down, right]: [i64; 2]) -> Option<(bool, i64)> {
    let straight = (columns == 1 || right == 1) && (rows == 1 || down >= columns);
    let turned = (rows == 1 || down == 1) && (columns == 1 || right >= rows);
    match (straight, turned) {
        (true, _) => Some((false, if rows == 1 { columns } else { down })),
        (_, true) => Some((true, if columns == 1 { rows } else { right })),
        _ => None,
    }
}

/// Biases are vectors of the result's type that begin where 16 bytes are read at once; F64 has none.
pub(crate) fn takes_bias(bias: &Operand, out: DType) -> bool {
    let dense = bias.rank == 1 && (bias.shape[0] == 1 || bias.strides[0] == 1);
    dense && bias.data.is_multiple_of(16) && out != DType::F64 && bias.stored == tag(out) && bias.rounds < 0
}

fn alignment(address: u64) -> u32 {
    const MOST: u32 = 256;
    1u32.checked_shl(address.trailing_zeros()).map_or(MOST, |n| n.min(MOST))
}

/// cuBLASLt with the plans of products done before; `None` for those that it refused.
#[derive(Debug)]
pub(crate) struct Products {
    lt: Lt,
    plans: Mutex<HashMap<Product, Option<Plan>>>,
    /// Whether the ReLU of an algorithm keeps NaN, for those that were tried.
    pub keeping: Mutex<HashMap<Tried, bool>>,
}

/// An algorithm in the words of cuBLASLt, and the types that it is for.
pub(crate) type Tried = ([u64; 8], [DType; 2]);

impl Products {
    /// Plans kept: a training step needs dozens.
    const MOST: usize = 4096;

    /// cuBLASLt, if it can be had; says once what it means if not.
    ///
    /// # Errors
    /// Want of memory.
    pub fn open(gpu: &Gpu) -> Result<Option<Self>> {
        match Lt::open(gpu.shared_stream()) {
            Ok(lt) => Ok(Some(Self { lt, plans: Mutex::default(), keeping: Mutex::default() })),
            Err(Unopened::Wanting(reason)) => Err(gpu.refusal("matmul", format!("cuBLASLt: {reason}"))),
            Err(Unopened::Unusable(reason)) => {
                log::warn!(
                    "{}: {reason}; matrix products run on the library's own kernels, without tensor cores. \
                     `AMP_CUDA_LIB_DIR` can name its folder",
                    gpu.name()
                );
                Ok(None)
            }
        }
    }

    /// What `then` makes of the product's plan, `None` when cuBLASLt has no algorithm for it.
    fn planned<T>(
        &self,
        gpu: &Gpu,
        product: Product,
        at: &Addresses,
        then: impl FnOnce(&mut Plan) -> T,
    ) -> Result<Option<T>> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if plans.len() >= Self::MOST {
            plans.clear();
        }
        let plan = match plans.entry(product) {
            Entry::Occupied(kept) => kept.into_mut(),
            Entry::Vacant(place) => place.insert(match self.lt.plan(&product, at) {
                Err(e) if wants_memory(e) => return Err(gpu.refusal("matmul", format!("cuBLASLt: {e}"))),
                plan => plan.inspect_err(|e| log::debug!("cuBLASLt has no algorithm for {product:?}: {e}")).ok(),
            }),
        };
        Ok(plan.as_mut().map(then))
    }

    /// What runs the product.
    pub fn algorithm(&self, gpu: &Gpu, product: Product, at: &Addresses) -> Result<Option<Tried>> {
        self.planned(gpu, product, at, |plan| (plan.algorithm(), product.types))
    }

    /// Runs the product, or returns `false` when cuBLASLt has no algorithm for it.
    pub fn multiply(&self, gpu: &Gpu, product: Product, at: Addresses, accumulate: bool) -> Result<bool> {
        let done = self.planned(gpu, product, &at, |plan| {
            let _turn = gpu.turn("matmul")?;
            Ok(self.lt.multiply(plan, at, accumulate))
        });
        match done?.transpose()? {
            None => Ok(false),
            // An algorithm that was proposed may yet turn out not to take the operands.
            Some(Err(e)) if unsupported(e) => {
                log::debug!("cuBLASLt does not do what it planned, {product:?}: {e}");
                self.plans.lock().unwrap_or_else(PoisonError::into_inner).insert(product, None);
                Ok(false)
            }
            Some(done) => done.map(|()| true).map_err(|e| gpu.refusal("matmul", format!("cuBLASLt: {e}"))),
        }
    }
}
