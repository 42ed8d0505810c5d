//! Patterns that name constants and variants, and that take lists apart.

use super::*;
use std::sync::LazyLock;

#[derive(Clone, Copy)]
enum Ending {
    Cut,
    Raised,
}
use Ending::{Cut, Raised};

const FIRST: usize = 0;

#[autocast(f16)]
#[allow(clippy::redundant_pattern_matching)] // the pattern is the test
fn biased(x: &T, w: &T, bias: Option<&T>) -> Result<T> {
    let y = match bias {
        Some(b) => x.linear(w, Some(b))?,
        None => x.linear(w, None)?,
    };
    let z = if let None = bias { y.linear(w, None)? } else { y };
    let None = bias else { return z.relu() };
    match (bias, bias) {
        (None, None) => z.linear(w, None),
        (first, _) => z.linear(w, first),
    }
}

#[autocast(f16)]
fn chosen(x: &T, w: &T, ending: Ending, stage: usize) -> Result<T> {
    let h = match stage {
        FIRST => x.matmul(w)?,
        stage => (w.matmul(x)? * stage as f64)?,
    };
    match ending {
        Cut => h.relu(),
        Raised => h.exp(),
    }
}

#[autocast(f16)]
#[allow(non_snake_case)]
fn named_as_in_papers(x: &T, w: &T) -> Result<T> {
    let (Q, K) = (x.matmul(w)?, x.softmax(-1)?);
    match Some(Q.matmul(&K)?) {
        Some(A) if A.rank() == 2 => A.matmul(w),
        Some(B) => Ok(B),
        None => Ok(K),
    }
}

#[autocast(f16)]
fn taken_apart(x: &T, w: &T) -> Result<T> {
    let [low, rest @ .., high] = [1.0, 2.0, 3.0, 1e-9, 5.0];
    let [by, _, eps] = rest;
    let [.., last] = if x.rank() == 2 { [1e-9, 5.0] } else { [3.0, 5.0] };
    let h = ((x.matmul(w)? * low)? + high)?;
    ((h * by)? + last)?.exp()? + eps
}

#[test]
fn none_is_no_variable() -> Result<()> {
    let (x, w, b) = (random([3, 3])?, random([3, 3])?, random([3])?);
    let [x16, w16] = [&x, &w].map(|x| x.to::<F16>().expect("floats"));
    let once = x16.linear(&w16, None)?;
    let by_hand = once.linear(&w16, None)?.linear(&w16, None)?.to::<F32>()?;
    assert_eq!(bits(&biased(&x, &w, None)?), bits(&by_hand));
    let by_hand = x16.linear(&w16, Some(&b.to()?))?.relu()?.to::<F32>()?;
    assert_eq!(bits(&biased(&x, &w, Some(&b))?), bits(&by_hand));
    let (xw, wx) = (x16.matmul(&w16)?, w16.matmul(&x16)?);
    assert_eq!(bits(&chosen(&x, &w, Cut, 0)?), bits(&xw.relu()?.to()?));
    assert_eq!(bits(&chosen(&x, &w, Raised, 3)?), bits(&(wx * 3.0)?.to::<F32>()?.exp()?));
    let scores = xw.matmul(&x.softmax(-1)?.to::<F16>()?)?;
    assert_eq!(bits(&named_as_in_papers(&x, &w)?), bits(&scores.matmul(&w16)?.to()?));
    Ok(())
}

#[test]
fn elements_behind_a_rest_are_counted_from_the_end() -> Result<()> {
    let (x, w) = (random([3, 3])?, random([3, 3])?);
    let h = ((x.to::<F16>()?.matmul(&w.to::<F16>()?)? * 1.0)? + 5.0)?;
    let by_hand = (((h * 2.0)? + 5.0)?.to::<F32>()?.exp()? + 1e-9)?;
    assert_eq!(bits(&taken_apart(&x, &w)?), bits(&by_hand));
    Ok(())
}

struct Norm {
    scale: f64,
    names: Vec<String>,
}

impl Norm {
    const DEFAULT: Self = Self { scale: 2.0, names: Vec::new() };
}

static NORM: LazyLock<Norm> = LazyLock::new(|| Norm::DEFAULT);
static SCALES: LazyLock<Vec<f64>> = LazyLock::new(|| vec![0.5]);
const PAIR: (f64, &str) = (0.25, "an offset");
const LIMITS: [f32; 3] = [1e-3, 2.0, 1e3];

/// Of constants that are taken apart the compiler computes the parts; what lies behind a `Deref` it cannot.
#[autocast(f16)]
#[allow(non_snake_case)]
fn parts_of_constants(x: &T, by: Option<f64>) -> Result<T> {
    let h = x.matmul(x)?;
    let ((offset, text), Norm { scale, names }) = (PAIR, Norm::DEFAULT);
    let [low, .., high] = LIMITS;
    let h = ((h * scale)? + offset)?.clamp(low, high)?;
    let h = ((h * NORM.scale)? * SCALES[0])?;
    match by {
        Some(BY) if text.len() > names.len() => h * BY,
        _ => Ok(h),
    }
}

#[test]
fn parts_of_constants_are_constants() -> Result<()> {
    let x = random([3, 3])?;
    let h = x.to::<F16>()?;
    let by_hand = ((h.matmul(&h)? * 2.0)? + 0.25)?.clamp(1e-3, 1e3)?;
    let by_hand = (((by_hand * 2.0)? * 0.5)? * 3.0)?.to::<F32>()?;
    assert_eq!(bits(&parts_of_constants(&x, Some(3.0))?), bits(&by_hand));
    Ok(())
}
