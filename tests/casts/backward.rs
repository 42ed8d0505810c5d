//! Casts of a training step's backward pass.

use super::*;

const CLASSES: usize = 7;

struct Head {
    layer: Linear,
    /// The labels of the positions.
    labels: Tensor<I64>,
}

#[autocast(bf16)]
fn logits(head: &Head, x: &T) -> Result<Tensor<BF16>> {
    head.layer.forward(x)
}

/// What a step leaves.
struct Step {
    /// The gradient of the weight.
    gradient: Vec<f32>,
    largest_logit: f64,
    /// The casts of the backward pass.
    casts: usize,
}

fn step(loss: impl Fn(&Head, Tensor<F32>) -> Result<T>) -> Step {
    let device = &Device::cpu();
    amp::manual_seed(3);
    let labels = Tensor::from_vec((0..10).map(|i| i * 5 % CLASSES as i64).collect(), [10], device).unwrap();
    let head = Head { layer: Linear::new(6, CLASSES, device).unwrap(), labels };
    let x = wave(&[2, 5, 6], 0.25).tracked();
    let logits = logits(&head, &x).unwrap().to::<F32>().unwrap();
    let largest_logit =
        logits.to_vec().unwrap().into_iter().fold(0.0, |largest: f64, x| largest.max(f64::from(x.abs())));
    let loss = loss(&head, logits).unwrap();
    let casts = cast_kernels();
    let grads = loss.backward().unwrap();
    let casts = cast_kernels() - casts;
    let weight = grads.get(head.layer.weight()).unwrap().unwrap();
    Step { gradient: weight.to_vec().unwrap(), largest_logit, casts }
}

fn rows(logits: &Tensor<F32>) -> Result<Tensor<F32>> {
    logits.reshape((.., CLASSES))
}

/// The loss of logits, in one operation or in two whose gradients take their way in F32.
fn loss(head: &Head, rows: &Tensor<F32>, fused: bool) -> Result<T> {
    if fused { rows.cross_entropy(&head.labels) } else { rows.log_softmax(-1)?.nll_loss(&head.labels) }
}

/// Compares a step whose loss is fused with one by hand, both with the mean square of the logits times `penalty`.
fn check(
    penalty: f64,
    fused: impl Fn(&Head, Tensor<F32>) -> Result<T>,
    by_hand: impl Fn(&Head, Tensor<F32>) -> Result<T>,
) -> usize {
    let (fused, by_hand) = (step(fused), step(by_hand));
    assert!(by_hand.casts > 0, "two products read what is in F32 until then");
    // The slopes of ten rows, of each of which the loss is a tenth, and of 70 squares.
    let slope = 0.1 + penalty * 2.0 * by_hand.largest_logit / 70.0;
    // Ten products with inputs of up to 1.1, of a slope that each side rounds to BF16 once.
    let allowed = 10.0 * 1.1 * slope * 2.0 * 2.0_f64.powi(-8);
    for (&a, &b) in fused.gradient.iter().zip(&by_hand.gradient) {
        assert!((f64::from(a) - f64::from(b)).abs() <= allowed, "{a} and {b}, allowed is {allowed}");
    }
    let largest = by_hand.gradient.iter().fold(0.0, |largest: f64, g| largest.max(f64::from(g.abs())));
    assert!(largest > 2.0 * allowed, "gradients of {largest} say little within {allowed}");
    fused.casts
}

#[test]
fn none_for_the_gradient_of_logits() {
    let _turn = alone();
    let of = |fused| move |head: &Head, logits: Tensor<F32>| loss(head, &rows(&logits)?, fused);
    assert_eq!(check(0.0, of(true), of(false)), 0, "it is rounded as it is written");
}

/// Another reader of the logits adds its share, and no copy is used that lacks it.
#[test]
fn a_gradient_of_two_parts_is_rounded_whole() {
    let _turn = alone();
    let of = |fused| {
        move |head: &Head, logits: Tensor<F32>| {
            let rows = rows(&logits)?;
            loss(head, &rows, fused)? + (rows.square()?.mean([0, 1], false)? * 20.0)?
        }
    };
    check(20.0, of(true), of(false));
    let of = |fused| {
        move |head: &Head, logits: Tensor<F32>| {
            let rows = rows(&logits)?;
            let penalty = (rows.square()?.mean([0, 1], false)? * 20.0)?;
            penalty + loss(head, &rows, fused)?
        }
    };
    check(20.0, of(true), of(false));
}
