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

/// The gradient of the weight after a step, and the casts of its backward pass.
fn step(loss: impl Fn(&Head, Tensor<F32>) -> Result<T>) -> (Vec<f32>, usize) {
    let device = &Device::cpu();
    amp::manual_seed(3);
    let labels = Tensor::from_vec((0..10).map(|i| i * 5 % CLASSES as i64).collect(), [10], device).unwrap();
    let head = Head { layer: Linear::new(6, CLASSES, device).unwrap(), labels };
    let x = wave(&[2, 5, 6], 0.25).tracked();
    let loss = loss(&head, logits(&head, &x).unwrap().to::<F32>().unwrap()).unwrap();
    let casts = cast_kernels();
    let grads = loss.backward().unwrap();
    let casts = cast_kernels() - casts;
    let weight = grads.get(head.layer.weight()).unwrap().unwrap();
    (weight.to_vec().unwrap(), casts)
}

fn rows(logits: &Tensor<F32>) -> Result<Tensor<F32>> {
    logits.reshape((.., CLASSES))
}

/// The loss of logits, in one operation or in two whose gradients take their way in F32.
fn loss(head: &Head, rows: &Tensor<F32>, fused: bool) -> Result<T> {
    if fused { rows.cross_entropy(&head.labels) } else { rows.log_softmax(-1)?.nll_loss(&head.labels) }
}

fn check(fused: impl Fn(&Head, Tensor<F32>) -> Result<T>, by_hand: impl Fn(&Head, Tensor<F32>) -> Result<T>) -> usize {
    let (fused, by_hand) = (step(fused), step(by_hand));
    assert!(by_hand.1 > 0, "two products read what is in F32 until then");
    for (&a, &b) in fused.0.iter().zip(&by_hand.0) {
        let (a, b) = (f64::from(a), f64::from(b));
        // Ten terms of up to 1.1 times a slope of up to 2, each rounded to BF16 once.
        assert!((a - b).abs() <= 10.0 * 2.2 * 2.0_f64.powi(-8), "{a} and {b}");
    }
    fused.1
}

#[test]
fn none_for_the_gradient_of_logits() {
    let _turn = alone();
    let of = |fused| move |head: &Head, logits: Tensor<F32>| loss(head, &rows(&logits)?, fused);
    assert_eq!(check(of(true), of(false)), 0, "it is rounded as it is written");
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
    check(of(true), of(false));
    let of = |fused| {
        move |head: &Head, logits: Tensor<F32>| {
            let rows = rows(&logits)?;
            let penalty = (rows.square()?.mean([0, 1], false)? * 20.0)?;
            penalty + loss(head, &rows, fused)?
        }
    };
    check(of(true), of(false));
}
