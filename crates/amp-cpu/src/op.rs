//! Names of the element-wise and reducing operations that kernels are asked for.
//!
//! Parameters are F64 so that F64 tensors keep their precision; F32 kernels round them once.

/// `y = f(x)`, one element in, one out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unary {
    /// `-x`
    Neg,
    /// `|x|`
    Abs,
    /// -1, 0 or 1
    Sign,
    /// `x * x`
    Sqr,
    /// `sqrt(x)`
    Sqrt,
    /// `1 / sqrt(x)`
    Rsqrt,
    /// `1 / x`
    Recip,
    /// `e^x`
    Exp,
    /// `e^x - 1`
    Expm1,
    /// `ln(x)`
    Log,
    /// `ln(1 + x)`
    Log1p,
    /// `log2(x)`
    Log2,
    /// `sin(x)`
    Sin,
    /// `cos(x)`
    Cos,
    /// `tanh(x)`
    Tanh,
    /// `1 / (1 + e^-x)`
    Sigmoid,
    /// `ln(sigmoid(x))`
    LogSigmoid,
    /// Gauss error function
    Erf,
    /// Towards minus infinity
    Floor,
    /// Towards plus infinity
    Ceil,
    /// To nearest, ties to even
    Round,
    /// Towards 0
    Trunc,
    /// `max(x, 0)`; NaN stays NaN
    Relu,
    /// `x` or `slope * x`
    LeakyRelu(f64),
    /// `x` or `alpha * (e^x - 1)`
    Elu(f64),
    /// `x * Phi(x)`, erf form
    Gelu,
    /// The tanh approximation of gelu
    GeluTanh,
    /// `x * sigmoid(x)`
    Silu,
    /// `ln(1 + e^(beta x)) / beta`, linear above `threshold`
    Softplus {
        /// Sharpness
        beta: f64,
        /// `beta * x` above which the identity is used
        threshold: f64,
    },
    /// `x * clamp(x + 3, 0, 6) / 6`
    Hardswish,
    /// Limited to a range; NaN stays NaN
    Clamp {
        /// Least result
        min: f64,
        /// Largest result
        max: f64,
    },
    /// As [`Self::Clamp`], of floats; its derivative is 1 for NaN and 0 at limits that are infinite
    Hardtanh {
        /// Least result
        min: f64,
        /// Largest result
        max: f64,
    },
    /// `x^2 / 2` up to `delta` from zero, then its tangent; times `factor`
    Huber {
        /// Where the tangents begin
        delta: f64,
        /// Factor of the whole
        factor: f64,
    },
    /// `x^p` for a constant exponent
    Powf(f64),
    /// `mul * x + add`
    Affine {
        /// Factor
        mul: f64,
        /// Summand
        add: f64,
    },
}

impl Unary {
    /// Whether the derivative is computed from the output rather than from the input.
    ///
    /// It decides what a forward pass keeps for the backward pass.
    pub const fn grad_from_output(self) -> bool {
        matches!(
            self,
            Self::Sqrt | Self::Rsqrt | Self::Recip | Self::Exp | Self::Expm1 | Self::Tanh | Self::Sigmoid | Self::Relu
        )
    }
}

/// A loss of an element `x` and its target `t`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PairLoss {
    /// `(x - t)^2`
    Squared,
    /// `|x - t|`
    Absolute,
    /// [`Unary::Huber`] of `x - t`
    Huber {
        /// Where the tangents begin
        delta: f64,
        /// Factor of the whole
        factor: f64,
    },
    /// Cross-entropy of `sigmoid(x)` and the probability `t`
    Logits,
    /// Cross-entropy of the probabilities `x` and `t`, of logarithms no less than -100
    Probabilities,
}

/// `y = f(a, b)` with both operands of one shape (broadcasting is a stride of 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `a / b`
    Div,
    /// `a^b`
    Pow,
    /// The lesser; NaN wins
    Minimum,
    /// The greater; NaN wins
    Maximum,
    /// Angle of the point `(b, a)`
    Atan2,
    /// `a`, times `b` unless it is above 0
    Leaky,
    /// `a / b` towards minus infinity
    FloorDivide,
    /// `a - b * floor(a / b)`, exact before it is rounded
    Remainder,
    /// `a - b * trunc(a / b)`, exact
    Fmod,
}

/// `y = a ? b`, truth values out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// `a == b`
    Eq,
    /// `a != b`
    Ne,
    /// `a < b`
    Lt,
    /// `a <= b`
    Le,
    /// `a > b`
    Gt,
    /// `a >= b`
    Ge,
}

/// `y = f(a, b, c)`, all of one shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ternary {
    /// `a + value * b * c`
    Addcmul(f64),
    /// `a + value * b / c`
    Addcdiv(f64),
    /// `a + c * (b - a)`
    Lerp,
}

/// Folds the elements along some axes into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// Sum
    Sum,
    /// Sum divided by the count
    Mean,
    /// Product
    Prod,
    /// Largest; NaN wins
    Max,
    /// Least; NaN wins
    Min,
    /// Sum of squares
    SumSquares,
    /// Sum of magnitudes
    SumAbs,
    /// Whether all are non-zero (Bool out)
    All,
    /// Whether any is non-zero (Bool out)
    Any,
}

/// Running fold along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// Running sum
    Sum,
    /// Running product
    Prod,
}
