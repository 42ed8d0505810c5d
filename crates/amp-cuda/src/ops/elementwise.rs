use crate::args::{BinaryArgs, SignsArgs, TernaryArgs, UnaryArgs, UnaryGradArgs};
use crate::device::{Gpu, Memory};
use crate::error::foreign;
use crate::module::Family;
use crate::operand::{Compute, Operand, tag};
use amp_core::Result;
use amp_core::backend::{Binary, Buffer, Compare, DType, Elementwise, Operand as CoreOperand, Ternary, Unary};

/// Number of an operation in `unary.cu`, and its parameters.
fn unary_code(op: Unary) -> (i32, [f64; 2]) {
    match op {
        Unary::Neg => (0, [0.0; 2]),
        Unary::Abs => (1, [0.0; 2]),
        Unary::Sign => (2, [0.0; 2]),
        Unary::Sqr => (3, [0.0; 2]),
        Unary::Sqrt => (4, [0.0; 2]),
        Unary::Rsqrt => (5, [0.0; 2]),
        Unary::Recip => (6, [0.0; 2]),
        Unary::Exp => (7, [0.0; 2]),
        Unary::Expm1 => (8, [0.0; 2]),
        Unary::Log => (9, [0.0; 2]),
        Unary::Log1p => (10, [0.0; 2]),
        Unary::Log2 => (11, [0.0; 2]),
        Unary::Sin => (12, [0.0; 2]),
        Unary::Cos => (13, [0.0; 2]),
        Unary::Tanh => (14, [0.0; 2]),
        Unary::Sigmoid => (15, [0.0; 2]),
        Unary::LogSigmoid => (16, [0.0; 2]),
        Unary::Erf => (17, [0.0; 2]),
        Unary::Floor => (18, [0.0; 2]),
        Unary::Ceil => (19, [0.0; 2]),
        Unary::Round => (20, [0.0; 2]),
        Unary::Relu => (21, [0.0; 2]),
        Unary::LeakyRelu(slope) => (22, [slope, 0.0]),
        Unary::Elu(alpha) => (23, [alpha, 0.0]),
        Unary::Gelu => (24, [0.0; 2]),
        Unary::GeluTanh => (25, [0.0; 2]),
        Unary::Silu => (26, [0.0; 2]),
        Unary::Softplus { beta, threshold } => (27, [beta, threshold]),
        Unary::Hardswish => (28, [0.0; 2]),
        Unary::Clamp { min, max } => (29, [min, max]),
        Unary::Huber { delta, factor } => (30, [delta, factor]),
        Unary::Powf(p) => (31, [p, 0.0]),
        Unary::Affine { mul, add } => (32, [mul, add]),
        Unary::Hardtanh { min, max } => (33, [min, max]),
        Unary::Trunc => (34, [0.0; 2]),
    }
}

/// Whether kernel `activation_grad` has an operation.
fn has_activation_grad(op: Unary) -> bool {
    matches!(op, Unary::Relu | Unary::Gelu | Unary::GeluTanh | Unary::Silu)
}

/// Whether kernel `activation` has it.
fn is_activation(op: Unary) -> bool {
    has_activation_grad(op) || matches!(op, Unary::Affine { .. })
}

/// The kernel for operation number `op` of two operands.
fn binary_stem(op: i32, compute: Compute) -> &'static str {
    let arithmetic = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div].map(binary_code);
    let division = [Binary::FloorDivide, Binary::Remainder, Binary::Fmod].map(binary_code);
    match op {
        op if compute == Compute::F32 && arithmetic.contains(&op) => "arithmetic",
        op if division.contains(&op) => "division",
        _ => "binary",
    }
}

fn binary_code(op: Binary) -> i32 {
    match op {
        Binary::Add => 0,
        Binary::Sub => 1,
        Binary::Mul => 2,
        Binary::Div => 3,
        Binary::Pow => 4,
        Binary::Minimum => 5,
        Binary::Maximum => 6,
        Binary::Leaky => 7,
        Binary::Atan2 => 8,
        Binary::FloorDivide => 9,
        Binary::Remainder => 10,
        Binary::Fmod => 11,
    }
}

fn compare_code(op: Compare) -> i32 {
    match op {
        Compare::Eq => 0,
        Compare::Ne => 1,
        Compare::Lt => 2,
        Compare::Le => 3,
        Compare::Gt => 4,
        Compare::Ge => 5,
    }
}

fn ternary_code(op: Ternary) -> (i32, f64) {
    match op {
        Ternary::Addcmul(value) => (0, value),
        Ternary::Addcdiv(value) => (1, value),
        Ternary::Lerp => (2, 0.0),
    }
}

impl Gpu {
    /// Operation number `op` of two operands, rounded to `out`, and that rounded to `also`.
    fn two(
        &self,
        op: i32,
        [a, b]: [CoreOperand<'_>; 2],
        out: DType,
        also: Option<DType>,
    ) -> Result<(Buffer, Option<Buffer>)> {
        let n = a.layout.count();
        let y = self.memory("binary", n, out)?;
        let narrowed = also.map(|also| self.memory("binary", n, also)).transpose()?;
        let args = BinaryArgs {
            l: Operand::new(self, "binary", a)?,
            r: Operand::new(self, "binary", b)?,
            y: y.address(),
            n: n as i64,
            out: tag(out),
            op,
            narrow: narrowed.as_ref().map_or(0, Memory::address),
            narrow_type: also.map_or(0, tag),
        };
        let compute = Compute::of(&[a.logical, b.logical, out]);
        self.launch(Family::Binary, binary_stem(op, compute), Some(compute), self.spread_elements(n, args.out), args)?;
        Ok((y.into_buffer(), narrowed.map(Memory::into_buffer)))
    }

    fn three(
        &self,
        stem: &'static str,
        (op, p): (i32, f64),
        operands: [CoreOperand<'_>; 3],
        compute: Compute,
        out: DType,
    ) -> Result<Buffer> {
        let n = operands[0].layout.count();
        let y = self.memory(stem, n, out)?;
        let [a, b, c] = operands.map(|x| Operand::new(self, stem, x));
        let args = TernaryArgs { x: [a?, b?, c?], y: y.address(), n: n as i64, out: tag(out), op, p };
        self.launch(Family::Binary, stem, Some(compute), self.spread_elements(n, args.out), args)?;
        Ok(y.into_buffer())
    }
}

impl Gpu {
    /// Adds `bias` `[C]` to every pixel of `into`, which is `[N, C, H, W]` of the type of computation.
    pub(super) fn add_bias(&self, bias: CoreOperand<'_>, into: &Memory, shape: [usize; 4]) -> Result<()> {
        let strides = [0, bias.layout.strides[0], 0, 0];
        self.add(Operand::new(self, "binary", bias)?.laid_out(&shape, &strides), into, Compute::of(&[into.dtype()]))
    }

    /// `into += x`, both contiguous and of the type of computation.
    pub(super) fn add_into(&self, x: &Memory, into: &Memory, compute: Compute) -> Result<()> {
        self.add(Operand::whole(x), into, compute)
    }

    /// `into += x`, of which `into` is contiguous and of the type of computation.
    pub(super) fn add(&self, x: Operand, into: &Memory, compute: Compute) -> Result<()> {
        let args = BinaryArgs {
            l: Operand::whole(into),
            r: x,
            y: into.address(),
            n: into.len() as i64,
            out: tag(into.dtype()),
            op: binary_code(Binary::Add),
            narrow: 0,
            narrow_type: 0,
        };
        self.launch(
            Family::Binary,
            binary_stem(args.op, compute),
            Some(compute),
            self.spread_elements(into.len(), args.out),
            args,
        )
    }
}

impl Gpu {
    /// Where the bits of `n` elements are that relu keeps.
    pub(super) fn bits(&self, op: &'static str, dead: &Buffer, n: usize) -> Result<u64> {
        let bits = dead.downcast::<Memory>().filter(|m| m.belongs_to(self)).ok_or_else(|| foreign(self, op))?;
        if bits.dtype() != DType::U8 || bits.len() < n.div_ceil(8) {
            return Err(self.refusal(op, format!("{} bytes of bits for {n} elements", bits.len())));
        }
        Ok(bits.address())
    }
}

impl Elementwise for Gpu {
    fn unary(&self, op: Unary, x: CoreOperand<'_>, out: DType) -> Result<Buffer> {
        let n = x.layout.count();
        let y = self.memory("unary", n, out)?;
        let compute = Compute::of(&[x.logical, out]);
        let stem = if compute == Compute::F32 && is_activation(op) { "activation" } else { "unary" };
        let (op, p) = unary_code(op);
        let args = UnaryArgs { x: Operand::new(self, "unary", x)?, y: y.address(), n: n as i64, out: tag(out), op, p };
        self.launch(Family::Unary, stem, Some(compute), self.spread_elements(n, args.out), args)?;
        Ok(y.into_buffer())
    }

    fn unary_grad(&self, op: Unary, saved: CoreOperand<'_>, grad: CoreOperand<'_>, out: DType) -> Result<Buffer> {
        let n = saved.layout.count();
        let y = self.memory("unary_grad", n, out)?;
        let compute = Compute::real(&[saved.logical, grad.logical, out]);
        let (saved, grad) = (Operand::new(self, "unary_grad", saved)?, Operand::new(self, "unary_grad", grad)?);
        let fast = compute == Compute::F32 && has_activation_grad(op);
        let stem = if fast { "activation_grad" } else { "unary_grad" };
        let (op, p) = unary_code(op);
        let args = UnaryGradArgs { saved, grad, y: y.address(), n: n as i64, out: tag(out), op, p };
        self.launch(Family::Unary, stem, Some(compute), self.spread_elements(n, args.out), args)?;
        Ok(y.into_buffer())
    }

    fn binary(&self, op: Binary, a: CoreOperand<'_>, b: CoreOperand<'_>, out: DType) -> Result<Buffer> {
        Ok(self.two(binary_code(op), [a, b], out, None)?.0)
    }

    fn binary_narrowed(
        &self,
        op: Binary,
        a: CoreOperand<'_>,
        b: CoreOperand<'_>,
        out: DType,
        also: DType,
    ) -> Result<(Buffer, Option<Buffer>)> {
        let wide = out != DType::F32 || [a, b].iter().any(|x| x.logical == DType::F64);
        self.two(binary_code(op), [a, b], out, (!wide).then_some(also))
    }

    fn compare(&self, op: Compare, a: CoreOperand<'_>, b: CoreOperand<'_>) -> Result<Buffer> {
        let n = a.layout.count();
        let y = self.memory("compare", n, DType::Bool)?;
        let (l, r) = (Operand::new(self, "compare", a)?, Operand::new(self, "compare", b)?);
        let (y_address, out, op) = (y.address(), tag(DType::Bool), compare_code(op));
        let args = BinaryArgs { l, r, y: y_address, n: n as i64, out, op, narrow: 0, narrow_type: 0 };
        self.launch(
            Family::Binary,
            "compare",
            Some(Compute::of(&[a.logical, b.logical])),
            self.spread_elements(n, args.out),
            args,
        )?;
        Ok(y.into_buffer())
    }

    fn select(&self, condition: CoreOperand<'_>, a: CoreOperand<'_>, b: CoreOperand<'_>, out: DType) -> Result<Buffer> {
        let compute = Compute::of(&[a.logical, b.logical, out]);
        self.three("select", (0, 0.0), [condition, a, b], compute, out)
    }

    fn dead(&self, x: CoreOperand<'_>) -> Result<Option<Buffer>> {
        let n = x.layout.count();
        let dead = self.memory("dead", n.div_ceil(8), DType::U8)?;
        let compute = Compute::real(&[x.logical]);
        let x = Operand::new(self, "dead", x)?;
        let args = SignsArgs { x, dead: dead.address(), y: 0, n: n as i64, out: 0 };
        self.launch(Family::Unary, "dead", Some(compute), self.spread(dead.len()), args)?;
        Ok(Some(dead.into_buffer()))
    }

    fn alive(&self, dead: &Buffer, grad: CoreOperand<'_>, out: DType) -> Result<Option<Buffer>> {
        let n = grad.layout.count();
        let bits = self.bits("alive", dead, n)?;
        let y = self.memory("alive", n, out)?;
        let compute = Compute::real(&[grad.logical, out]);
        let x = Operand::new(self, "alive", grad)?;
        let args = SignsArgs { x, dead: bits, y: y.address(), n: n as i64, out: tag(out) };
        self.launch(Family::Unary, "alive", Some(compute), self.spread_elements(n, args.out), args)?;
        Ok(Some(y.into_buffer()))
    }

    fn ternary(
        &self,
        op: Ternary,
        a: CoreOperand<'_>,
        b: CoreOperand<'_>,
        c: CoreOperand<'_>,
        out: DType,
    ) -> Result<Buffer> {
        let compute = Compute::real(&[a.logical, b.logical, c.logical, out]);
        self.three("ternary", ternary_code(op), [a, b, c], compute, out)
    }
}
