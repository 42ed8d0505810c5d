//! Errors stand under the name of the operation that was called, whatever it is made of.

use crate::testing::{indices, line};
use crate::{AttentionOptions, Device, F32, MatrixNorm, Result, ScatterReduce, Tensor};

fn zeros(shape: &[usize]) -> Result<Tensor<F32>> {
    Tensor::zeros(shape, &Device::cpu())
}

/// What is called, and what it says: its name first.
type Case = (&'static str, fn() -> Result<()>);

/// Operations that are made of others, with arguments that one of these refuses.
const CASES: [Case; 34] = [
    ("scatter_reduce: index 9", || {
        line(&[1.0]).scatter_reduce(0, &indices(&[9], &[1]), &line(&[1.0]), ScatterReduce::Max, true).map(drop)
    }),
    ("nansum: axis 3", || line(&[1.0]).nansum(3, false).map(drop)),
    ("nanmean: axis 3", || line(&[1.0]).nanmean(3, false).map(drop)),
    ("softmin: axis 3", || line(&[1.0]).softmin(3).map(drop)),
    ("gumbel_softmax: axis 3", || line(&[1.0]).gumbel_softmax(1.0, true, 3).map(drop)),
    ("vector_norm: axis 3", || line(&[1.0]).vector_norm(2.0, 3, false).map(drop)),
    ("vector_norm: p", || line(&[1.0]).vector_norm(f64::NAN, 0, false).map(drop)),
    ("matrix_norm: a tensor", || zeros(&[0, 0])?.matrix_norm(MatrixNorm::LargestRow, [0, 1], false).map(drop)),
    ("var: axis 3", || line(&[1.0]).var(3, false).map(drop)),
    ("std: axis 3", || line(&[1.0]).std(3, false).map(drop)),
    ("var_with: axis 3", || line(&[1.0]).var_with(3, 0.0, false).map(drop)),
    ("std_with: axis 3", || line(&[1.0]).std_with(3, 0.0, false).map(drop)),
    ("var_mean: axis 3", || line(&[1.0]).var_mean(3, false).map(drop)),
    ("std_mean: axis 3", || line(&[1.0]).std_mean(3, false).map(drop)),
    ("pad_sequence: the value", || Tensor::pad_sequence(&[&line(&[1.0]).to::<crate::F16>()?], 1e9).map(drop)),
    ("multilabel_soft_margin_loss: target", || line(&[1.0]).multilabel_soft_margin_loss(&line(&[f32::NAN])).map(drop)),
    ("gaussian_nll_loss: ", || line(&[1.0; 2]).gaussian_nll_loss(&line(&[1.0; 2]), &line(&[1.0; 3])).map(drop)),
    ("remainder: shapes", || line(&[1.0; 2]).remainder(line(&[1.0; 3])).map(drop)),
    ("fmod: shapes", || line(&[1.0; 2]).fmod(line(&[1.0; 3])).map(drop)),
    ("floor_divide: shapes", || line(&[1.0; 2]).floor_divide(line(&[1.0; 3])).map(drop)),
    ("fmax: shapes", || line(&[1.0; 2]).fmax(&line(&[1.0; 3])).map(drop)),
    ("fmin: shapes", || line(&[1.0; 2]).fmin(&line(&[1.0; 3])).map(drop)),
    ("copysign: shapes", || line(&[1.0; 2]).copysign(&line(&[1.0; 3])).map(drop)),
    ("isclose: shapes", || line(&[1.0; 2]).isclose(&line(&[1.0; 3]), 0.0, 0.0).map(drop)),
    ("allclose: shapes", || line(&[1.0; 2]).allclose(&line(&[1.0; 3]), 0.0, 0.0).map(drop)),
    ("trapezoid_over: shapes", || zeros(&[2, 3])?.trapezoid_over(&zeros(&[4, 3])?, 1).map(drop)),
    ("index_select: shape", || zeros(&[])?.index_select(0, &indices(&[0, 0], &[2])).map(drop)),
    ("dist: p", || line(&[1.0]).dist(&line(&[1.0]), f64::NAN).map(drop)),
    ("pairwise_distance: p", || line(&[1.0]).pairwise_distance(&line(&[1.0]), f64::NAN, 0.0, false).map(drop)),
    ("bilinear: the second input", || zeros(&[2, 3])?.bilinear(&zeros(&[])?, &zeros(&[5, 3, 4])?, None).map(drop)),
    ("cosine_embedding_loss: the second input", || {
        zeros(&[2, 3])?.cosine_embedding_loss(&zeros(&[2, 4])?, &indices(&[1, 1], &[2]), 0.0).map(drop)
    }),
    ("margin_ranking_loss: the second input", || {
        line(&[1.0; 2]).margin_ranking_loss(&line(&[1.0; 3]), &line(&[1.0; 2]), 0.0).map(drop)
    }),
    ("triplet_margin_loss: the negative", || {
        line(&[1.0; 2]).triplet_margin_loss(&line(&[1.0; 2]), &line(&[1.0; 3]), 0.0).map(drop)
    }),
    ("scaled_dot_product_attention: shapes [2, 4, 3, 5] and [3, 2, 3, 5]", || {
        let (q, k, options) = (zeros(&[2, 4, 3, 5])?, zeros(&[3, 2, 3, 5])?, AttentionOptions::new().grouped(true));
        q.scaled_dot_product_attention(&k, &k, None, options).map(drop)
    }),
];

#[test]
fn errors_name_what_was_called() {
    let wrong = |(expected, call): &Case| {
        let found = call().err().map_or("no error".into(), |error| error.to_string());
        (!found.starts_with(expected)).then(|| format!("`{expected}`: {found}"))
    };
    let wrong: Vec<String> = CASES.iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
