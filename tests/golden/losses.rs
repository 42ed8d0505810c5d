//! Losses.

use amp::prelude::*;
use amp::{CrossEntropy, LossReduction, Margin, TripletMargin};

use crate::case::Tolerance::Accumulated;
use crate::case::{Case, Outs, Tolerance};

/// Runs operation `op` on the inputs of `c`; `None` when this table has no such operation.
pub fn apply(op: &str, c: &Case) -> Result<Option<(Tolerance, Outs)>> {
    Ok(Some(match op {
        "mse_loss" => (Accumulated, c.x(0).mse_loss_with(&c.x(1), reduction(c))?.into()),
        "l1_loss" => (Accumulated, c.x(0).l1_loss_with(&c.x(1), reduction(c))?.into()),
        "smooth_l1_loss" => (Accumulated, c.x(0).smooth_l1_loss_with(&c.x(1), c.float("beta"), reduction(c))?.into()),
        "huber_loss" => (Accumulated, c.x(0).huber_loss_with(&c.x(1), c.float("delta"), reduction(c))?.into()),
        "cross_entropy" => (Accumulated, c.x(0).cross_entropy_with(&c.index(1), &classes(c))?.into()),
        "soft_cross_entropy" => (Accumulated, c.x(0).soft_cross_entropy_with(&c.x(1), &classes(c))?.into()),
        "nll_loss" => (Accumulated, c.x(0).log_softmax(1)?.nll_loss_with(&c.index(1), &classes(c))?.into()),
        "bce_with_logits" => (
            Accumulated,
            c.x(0).bce_with_logits_with(&c.x(1), c.maybe(2).as_ref(), c.maybe(3).as_ref(), reduction(c))?.into(),
        ),
        "binary_cross_entropy" => {
            (Accumulated, c.x(0).binary_cross_entropy_with(&c.x(1), c.maybe(2).as_ref(), reduction(c))?.into())
        }
        "kl_div" => {
            let y = c.x(0).log_softmax(-1)?.kl_div_with(&c.x(1), c.flag("log_target"), reduction(c))?;
            (Accumulated, y.into())
        }
        "gaussian_nll_loss" => {
            let y = c.x(0).gaussian_nll_loss_with(&c.x(1), &c.x(2), c.flag("full"), 1e-6, reduction(c))?;
            (Accumulated, y.into())
        }
        "poisson_nll_loss" => {
            let y = c.x(0).poisson_nll_loss_with(&c.x(1), c.flag("log_input"), c.flag("full"), reduction(c))?;
            (Accumulated, y.into())
        }
        "hinge_embedding_loss" => {
            (Accumulated, c.x(0).hinge_embedding_loss_with(&c.x(1), c.float("margin"), reduction(c))?.into())
        }
        "soft_margin_loss" => (Accumulated, c.x(0).soft_margin_loss_with(&c.x(1), reduction(c))?.into()),
        "multi_margin_loss" => {
            let y = c.x(0).multi_margin_loss_with(&c.index(1), c.float("p"), c.float("margin"), reduction(c))?;
            (Accumulated, y.into())
        }
        "multilabel_margin_loss" => {
            (Accumulated, c.x(0).multilabel_margin_loss_with(&c.index(1), reduction(c))?.into())
        }
        "multilabel_soft_margin_loss" => {
            (Accumulated, c.x(0).multilabel_soft_margin_loss_with(&c.x(1), reduction(c))?.into())
        }
        "ctc_loss" => {
            let (inputs, targets) = (c.sizes("inputs"), c.sizes("targets"));
            let x = c.x(0).log_softmax(-1)?;
            let y = x.ctc_loss_with(&c.index(1), inputs, targets, c.size("blank"), false, reduction(c))?;
            (Accumulated, y.into())
        }
        "triplet_margin_loss" if c.given("swap") => {
            let options = TripletMargin::from(c.float("margin")).p(c.float("power")).swap(c.flag("swap"));
            let y = c.x(0).triplet_margin_loss(&c.x(1), &c.x(2), options.reduction(reduction(c)))?;
            (Accumulated, y.into())
        }
        "triplet_margin_loss" => (Accumulated, c.x(0).triplet_margin_loss(&c.x(1), &c.x(2), c.float("margin"))?.into()),
        "margin_ranking_loss" if c.given("reduction") => {
            (Accumulated, c.x(0).margin_ranking_loss(&c.x(1), &c.x(2).detach(), margin(c))?.into())
        }
        "margin_ranking_loss" => {
            (Accumulated, c.x(0).margin_ranking_loss(&c.x(1), &c.x(2).detach(), c.float("margin"))?.into())
        }
        "cosine_embedding_loss" => (Accumulated, c.x(0).cosine_embedding_loss(&c.x(1), &c.index(2), margin(c))?.into()),
        _ => return Ok(None),
    }))
}

fn reduction(c: &Case) -> LossReduction {
    match c.text("reduction") {
        "mean" => LossReduction::Mean,
        "sum" => LossReduction::Sum,
        "batchmean" => LossReduction::BatchMean,
        _ => LossReduction::None,
    }
}

fn margin(c: &Case) -> Margin {
    Margin::new(c.float("margin")).reduction(reduction(c))
}

fn classes(c: &Case) -> CrossEntropy<F32> {
    let plain = CrossEntropy::new().ignore_index(c.int("ignore_index")).reduction(reduction(c));
    let smoothed = plain.label_smoothing(c.float_or("label_smoothing", 0.0));
    match c.maybe(2) {
        Some(weight) => smoothed.weight(weight.detach()),
        None => smoothed,
    }
}
