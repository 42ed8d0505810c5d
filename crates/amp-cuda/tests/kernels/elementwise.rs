use crate::case::{Input, check, check_same, noise};
use amp_core::backend::{Binary, Compare, DType, NormKind, Ternary, Unary};

const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];

const UNARY: [Unary; 39] = [
    Unary::Neg,
    Unary::Abs,
    Unary::Sign,
    Unary::Sqr,
    Unary::Sqrt,
    Unary::Rsqrt,
    Unary::Recip,
    Unary::Exp,
    Unary::Expm1,
    Unary::Log,
    Unary::Log1p,
    Unary::Log2,
    Unary::Sin,
    Unary::Cos,
    Unary::Tanh,
    Unary::Sigmoid,
    Unary::LogSigmoid,
    Unary::Erf,
    Unary::Floor,
    Unary::Ceil,
    Unary::Round,
    Unary::Trunc,
    Unary::Relu,
    Unary::LeakyRelu(0.1),
    Unary::Elu(1.3),
    Unary::Gelu,
    Unary::GeluTanh,
    Unary::Silu,
    Unary::Softplus { beta: 1.5, threshold: 2.0 },
    Unary::Softplus { beta: 1.0, threshold: 200.0 },
    Unary::Softplus { beta: -2.0, threshold: 3.0 },
    Unary::Hardswish,
    Unary::Clamp { min: -0.5, max: 0.7 },
    Unary::Huber { delta: 0.7, factor: 1.5 },
    Unary::Clamp { min: -1.0, max: 1.0 },
    Unary::Clamp { min: -1.0, max: f64::INFINITY },
    Unary::Hardtanh { min: -1.0, max: 1.0 },
    Unary::Powf(1.7),
    Unary::Affine { mul: 1.5, add: -0.25 },
];

const DIVISIONS: [Binary; 3] = [Binary::FloorDivide, Binary::Remainder, Binary::Fmod];

/// What 16-bit arithmetic trips over.
fn specials() -> Vec<f64> {
    let mut values = vec![
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        65504.0,
        -65504.0,
        65520.0,
        70000.0,
        6e-8,
        -6e-8,
        3e-8,
        1e-40,
        0.0,
        -0.0,
        1.0,
        -1.0,
        2049.0,
        0.333,
        88.8,
        -88.8,
        3.4e38,
    ];
    values.extend(noise(17, 5).iter().map(|v| v * 4.0));
    values
}

/// Positive and away from poles, where a function has them.
fn domain(op: Unary, x: Input) -> Input {
    let positive = matches!(
        op,
        Unary::Sqrt | Unary::Rsqrt | Unary::Recip | Unary::Log | Unary::Log1p | Unary::Log2 | Unary::Powf(_)
    );
    if positive { Input { values: x.values.iter().map(|v| v.abs() + 0.2).collect(), ..x } } else { x }
}

#[test]
fn functions_and_their_derivatives_in_every_precision() {
    for (i, op) in UNARY.into_iter().enumerate() {
        let dtype = FLOATS[i % 4];
        for (shape, stored) in [(&[257usize][..], dtype), (&[5, 7], DType::F32)] {
            let x = domain(op, Input::noise(shape, dtype, 3.0, i as u64).stored(stored));
            let g = Input::noise(shape, dtype, 1.0, 99 + i as u64);
            check(&format!("{op:?}"), &[x.clone()], dtype, 64.0, &|b, x, out| Ok(vec![b.unary(op, x[0], out)?]));
            check(&format!("{op:?} grad"), &[x, g], DType::F32, 64.0, &|b, x, out| {
                Ok(vec![b.unary_grad(op, x[0], x[1], out)?])
            });
        }
    }
}

#[test]
fn special_values_go_through_functions_as_on_the_cpu() {
    for op in UNARY {
        for dtype in [DType::F16, DType::BF16, DType::F32] {
            let x = Input::new(specials(), &[specials().len()], dtype);
            check_same(&format!("{op:?}"), &[x.clone()], dtype, 64.0, &|b, x, out| Ok(vec![b.unary(op, x[0], out)?]));
            let g = Input::noise(&[specials().len()], dtype, 1.0, 7);
            check_same(&format!("{op:?} grad"), &[x, g], DType::F32, 64.0, &|b, x, out| {
                Ok(vec![b.unary_grad(op, x[0], x[1], out)?])
            });
        }
    }
}

#[test]
fn integers_stay_integers() {
    let x = Input::new(vec![-3.0, 0.0, 1.0, 7.0, 100.0, -128.0], &[6], DType::I64);
    let y = Input::new(vec![2.0, 0.0, -1.0, 3.0, 7.0, 1.0], &[6], DType::I64);
    for op in [Unary::Neg, Unary::Abs, Unary::Sqr, Unary::Relu, Unary::Clamp { min: -1.5, max: 50.0 }] {
        check_same(&format!("{op:?}"), &[x.clone()], DType::I64, 0.0, &|b, x, out| Ok(vec![b.unary(op, x[0], out)?]));
    }
    let limits = [Binary::Minimum, Binary::Maximum];
    let ops =
        [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Pow].into_iter().chain(limits).chain(DIVISIONS);
    for op in ops {
        check_same(&format!("{op:?}"), &[x.clone(), y.clone()], DType::I64, 0.0, &|b, x, out| {
            Ok(vec![b.binary(op, x[0], x[1], out)?])
        });
    }
}

#[test]
fn two_and_three_operands_of_any_layout() {
    let shape = [3, 5, 7];
    let limits = [Binary::Minimum, Binary::Maximum, Binary::Leaky];
    let ops = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Atan2].into_iter().chain(limits);
    for (i, op) in ops.enumerate() {
        let dtype = FLOATS[i % 4];
        let a = Input::strided(&shape, &[35, 7, 1], 0, dtype, 1);
        let b = Input::strided(&shape, &[1, 21, 3], 2, dtype, 2);
        let c = Input::strided(&shape, &[0, 1, 0], 1, dtype, 3).stored(DType::F32);
        for pair in [[a.clone(), b.clone()], [b, c], [a.clone(), a]] {
            check(&format!("{op:?}"), &pair, dtype, 2000.0, &|b, x, out| Ok(vec![b.binary(op, x[0], x[1], out)?]));
        }
    }
    for op in [Ternary::Addcmul(0.5), Ternary::Addcdiv(-2.0), Ternary::Lerp] {
        let x: Vec<Input> = (0..3).map(|i| domain(Unary::Log, Input::noise(&[129], DType::BF16, 1.0, i))).collect();
        check(&format!("{op:?}"), &x, DType::F32, 64.0, &|b, x, out| Ok(vec![b.ternary(op, x[0], x[1], x[2], out)?]));
    }
}

/// Packs of 16 bytes are for those alone that begin where a GPU reads so many.
#[test]
fn dense_operands_begin_at_any_element() {
    for (i, dtype) in FLOATS.into_iter().enumerate() {
        let dense = |shape: &[usize], offset| {
            let strides = [shape[1], 1];
            Input::strided(shape, &strides, offset, dtype, offset as u64)
        };
        let x = [dense(&[5, 24], 1), dense(&[5, 24], 3 + i), dense(&[5, 24], 5)];
        check("from odd elements on", &x, DType::F32, 2000.0, &|b, x, out| {
            Ok(vec![
                b.unary(Unary::Tanh, x[0], out)?,
                b.unary_grad(Unary::Tanh, x[0], x[1], out)?,
                b.binary(Binary::Add, x[0], x[1], out)?,
                b.ternary(Ternary::Lerp, x[0], x[1], x[2], out)?,
                b.select(x[0], x[1], x[2], out)?,
                b.compare(Compare::Lt, x[0], x[1])?,
                b.copy(x[0], out)?,
                b.softmax(x[0], 1, false, out)?,
                b.normalize(x[0], NormKind::Layer { inner: 24 }, None, None, 1e-5, out)?.y,
            ])
        });
    }
}

#[test]
fn comparisons_selections_and_special_operands() {
    let values = specials();
    let n = values.len();
    let turned: Vec<f64> = (0..n).map(|i| values[(i * 7 + 3) % n]).collect();
    let truth = Input::new((0..n).map(|i| (i % 3 == 0) as i32 as f64).collect(), &[n], DType::Bool);
    for dtype in FLOATS {
        let (a, b) = (Input::new(values.clone(), &[n], dtype), Input::new(turned.clone(), &[n], dtype));
        for op in [Compare::Eq, Compare::Ne, Compare::Lt, Compare::Le, Compare::Gt, Compare::Ge] {
            check_same(&format!("{op:?}"), &[a.clone(), b.clone()], DType::Bool, 0.0, &|b, x, _| {
                Ok(vec![b.compare(op, x[0], x[1])?])
            });
        }
        for op in DIVISIONS {
            check_same(&format!("{op:?}"), &[a.clone(), b.clone()], dtype, 1.0, &|b, x, out| {
                Ok(vec![b.binary(op, x[0], x[1], out)?])
            });
        }
        for op in [Binary::Add, Binary::Mul, Binary::Div, Binary::Minimum, Binary::Maximum, Binary::Pow] {
            check_same(&format!("{op:?}"), &[a.clone(), b.clone()], dtype, 64.0, &|b, x, out| {
                Ok(vec![b.binary(op, x[0], x[1], out)?])
            });
        }
        check_same("select", &[truth.clone(), a, b], dtype, 0.0, &|b, x, out| {
            Ok(vec![b.select(x[0], x[1], x[2], out)?])
        });
    }
}

/// Layouts of `[6, 20]` and `[6, 18]` that are read four elements at once, or one element for four, or one by one.
fn layouts(dtype: DType) -> Vec<Input> {
    let cases = [
        (20, [20, 1], 0),
        (20, [20, 1], 2),
        (20, [28, 1], 4),
        (20, [26, 1], 0),
        (20, [0, 1], 4),
        (20, [1, 0], 3),
        (20, [0, 0], 1),
        (20, [1, 6], 0),
        (18, [18, 1], 0),
        (18, [20, 1], 0),
    ];
    let input = |(columns, strides, offset): (usize, [usize; 2], usize)| {
        Input::strided(&[6, columns], &strides, offset, dtype, (columns + strides[0] + offset) as u64)
    };
    cases.into_iter().map(input).collect()
}

#[test]
fn rows_and_repeated_elements_of_every_layout() {
    use DType::{BF16, F16, F32};
    for (dtype, stored) in [(F32, F32), (BF16, BF16), (F16, F32), (BF16, F16), (F32, BF16)] {
        let all: Vec<Input> = layouts(dtype).into_iter().map(|x| x.stored(stored)).collect();
        for (i, x) in all.iter().enumerate() {
            let alike = |y: &&Input| y.layout.shape == x.layout.shape;
            let other = all.iter().cycle().skip(i + 3).find(alike).expect("itself at least");
            let mixed = Input { stored: F32, ..all.iter().find(alike).expect("itself at least").clone() };
            check(&format!("layout {i}"), &[x.clone(), other.clone(), mixed], dtype, 2000.0, &|b, x, out| {
                Ok(vec![
                    b.unary(Unary::Gelu, x[0], out)?,
                    b.unary(Unary::Abs, x[0], out)?,
                    b.unary_grad(Unary::Gelu, x[0], x[1], out)?,
                    b.unary_grad(Unary::Abs, x[1], x[2], out)?,
                    b.binary(Binary::Mul, x[0], x[1], out)?,
                    b.binary(Binary::Minimum, x[2], x[0], out)?,
                    b.compare(Compare::Lt, x[0], x[2])?,
                    b.ternary(Ternary::Lerp, x[0], x[1], x[2], out)?,
                    b.select(x[0], x[1], x[2], out)?,
                    b.copy(x[0], out)?,
                    b.dead(x[0])?.expect("there is a kernel"),
                ])
            });
        }
    }
}

#[test]
fn more_elements_than_the_threads_take_at_once() {
    for (dtype, stored) in [(DType::BF16, DType::BF16), (DType::F32, DType::F16)] {
        let x = [1, 2, 3].map(|seed| Input::noise(&[140_007], dtype, 3.0, seed).stored(stored));
        check("many elements", &x, dtype, 2000.0, &|b, x, out| {
            Ok(vec![
                b.unary(Unary::Silu, x[0], out)?,
                b.unary_grad(Unary::Gelu, x[0], x[1], out)?,
                b.binary(Binary::Sub, x[0], x[1], out)?,
                b.select(x[0], x[1], x[2], out)?,
                b.copy(x[0], out)?,
            ])
        });
    }
}

#[test]
fn signs_of_relu_are_bits() {
    for n in [0, 1, 7, 8, 9, 12, 257, 9000] {
        for dtype in FLOATS {
            let values: Vec<f64> = specials().into_iter().chain(noise(n, 3)).take(n).collect();
            let x = Input::new(values, &[n], dtype);
            let grad = Input::noise(&[n], dtype, 1.0, 4);
            check_same(&format!("signs of {n}"), &[x, grad], dtype, 0.0, &|b, x, out| {
                let dead = b.dead(x[0])?.expect("there is a kernel");
                let alive = b.alive(&dead, x[1], out)?.expect("there is a kernel");
                let wide = b.alive(&dead, x[1], DType::F64)?.expect("there is a kernel");
                Ok(vec![dead, alive, wide])
            });
        }
    }
}
