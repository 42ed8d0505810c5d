//! Quotients that are rounded down, and what divisions leave.

use crate::Binary;

/// Up to here quotients lie among all integers of F64.
const QUOTIENTS: f64 = (1_u64 << 52) as f64;

/// [`divided`] where the quotient of F64 tells the integers next to it, else NaN: no branches, so that it is vectorised.
///
/// The remainder for the integer that the rounded quotient gives is a number of F64, so that a fused product and sum finds
/// it; the integer may be the next one.
#[inline(always)]
pub(crate) fn divided_near(op: Binary, a: f64, b: f64) -> f64 {
    let whole = (a / b).trunc();
    let rest = (-whole).mul_add(b, a);
    // Divided by infinity, `a` is left as it is; the product of 0 and infinity is NaN.
    let less = whole == 0.0;
    let beyond = !less && rest != 0.0 && rest.is_sign_negative() != a.is_sign_negative();
    let rest = if beyond { rest + b.copysign(a) } else { rest };
    let rest = if less { a } else { rest.copysign(a) };
    let value = match op {
        Binary::FloorDivide => {
            let whole = if beyond { whole - 1_f64.copysign(whole) } else { whole };
            let low = if crosses(rest, b) { whole - 1.0 } else { whole };
            if low == 0.0 { low.copysign(a / b) } else { low }
        }
        op => of_rest(op, rest, b),
    };
    if whole.abs() < QUOTIENTS { value } else { f64::NAN }
}

/// `a / b` rounded down, or one of the remainders; the way of `torch.floor_divide`, `remainder` and `fmod` for floats.
pub(crate) fn divided(op: Binary, a: f64, b: f64) -> f64 {
    let rest = a % b;
    match op {
        Binary::FloorDivide if b == 0.0 => a / b,
        // As far out as this is called for quotients are integers.
        Binary::FloorDivide => (a - rest) / b - f64::from(u8::from(crosses(rest, b))),
        op => of_rest(op, rest, b),
    }
}

#[inline(always)]
fn of_rest(op: Binary, rest: f64, b: f64) -> f64 {
    if op == Binary::Remainder && crosses(rest, b) { rest + b } else { rest }
}

/// Whether 0 lies between what is left and the divisor.
#[inline(always)]
fn crosses(rest: f64, b: f64) -> bool {
    rest != 0.0 && (rest < 0.0) != (b < 0.0)
}

/// The same of integers; a division by 0 gives 0.
#[inline(always)]
pub(crate) fn divided_integers(op: Binary, a: i64, b: i64) -> i64 {
    if b == 0 {
        return 0;
    }
    let rest = a.wrapping_rem(b);
    let crosses = rest != 0 && (rest < 0) != (b < 0);
    match op {
        Binary::FloorDivide => a.wrapping_div(b) - i64::from(crosses),
        Binary::Remainder if crosses => rest + b,
        _ => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::{divided, divided_near};
    use crate::Binary;

    #[test]
    fn near_quotients_are_divided_as_all_are() {
        let mut seed = 7_u64;
        let mut bits = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed ^ seed >> 29
        };
        let odd = [0.0, -0.0, 1.0, f64::MIN_POSITIVE, 5e-324, f64::MAX, f64::INFINITY, f64::NAN];
        let mut near = 0;
        for turn in 0..200_000_u32 {
            let (a, b) = (f64::from_bits(bits()), f64::from_bits(bits()));
            // Of one size, too, and multiples, whose quotients are rounded to integers.
            let multiple = b * f64::from(turn % 1000) * if turn % 2 == 0 { 1.0 } else { 1.0 - f64::EPSILON };
            let of_odd = odd[turn as usize % odd.len()];
            for (a, b) in [(a, b), (multiple, b), (b * 3e15, b), (of_odd, b), (a, of_odd), (f64::from(a as f32), 0.7)] {
                for op in [Binary::FloorDivide, Binary::Remainder, Binary::Fmod] {
                    let found = divided_near(op, a, b);
                    if found.is_nan() {
                        continue;
                    }
                    near += 1;
                    // Where a quotient is right, it leaves the remainder; exactly, in a fused product and sum.
                    let (left, expected) = match op {
                        Binary::FloorDivide if b.is_infinite() => (found, if a * b < 0.0 { -1.0 } else { 0.0 }),
                        Binary::FloorDivide => ((-found).mul_add(b, a), divided(Binary::Remainder, a, b)),
                        op => (found, divided(op, a, b)),
                    };
                    assert!(left == expected, "{op:?} of {a:e} and {b:e} is {found:e}: {left:e} for {expected:e}");
                    assert!(
                        op == Binary::FloorDivide || left.to_bits() == expected.to_bits(),
                        "sign of {a:e} and {b:e}"
                    );
                }
            }
        }
        assert!(near > 600_000, "{near}");
    }
}
