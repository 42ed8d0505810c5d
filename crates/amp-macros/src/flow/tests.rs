//! Which results are written narrow, read off the plans of small functions.

use quote::quote;
use syn::{Expr, ExprLit, ItemFn, Lit, Meta};

/// The rows of the plan of a function with this body, each as `| call | class | in | out | casts | costed |`.
fn plan(half: &str, body: &str) -> Vec<String> {
    let [half, body] = [half, body].map(|text| text.parse::<proc_macro2::TokenStream>().unwrap());
    let function = quote! {
        fn f(&self, x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> { #body }
    };
    let function: ItemFn = syn::parse2(crate::expand::autocast(half, function)).unwrap();
    let text = function.attrs.iter().find_map(|attr| match &attr.meta {
        Meta::NameValue(doc) => match &doc.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    text.unwrap().lines().filter(|line| line.starts_with("| `")).map(str::to_owned).collect()
}

fn written(body: &str) -> usize {
    plan("bf16", body).iter().filter(|row| row.contains("| full |") && row.contains("| F32 as BF16 |")).count()
}

#[test]
fn relu_writes_a_narrow_result_where_control_passes_who_narrows_it() {
    let written = |body| plan("f16", body).iter().filter(|row| row.contains("| F32 as F16 |")).count();
    for body in [
        "let n = x.relu()?; n.matmul(w)",
        "let n = x.relu()?; if c { return Err(e) } n.matmul(w)",
        "let n = x.relu()?; if c { n.matmul(w) } else { w.matmul(&n) }",
        "let n = x.relu()?; if c { return n.matmul(w) } w.matmul(&n)",
        "let n = if c { x.relu()? } else { w.relu()?.matmul(w)? }; n.matmul(w)",
        "let n = x.relu()?; let f = |y: &Tensor<F32>| { if c { return y.exp() } y.log() }; n.matmul(&f(w)?)",
        "let mut h = x.relu()?; for _ in 0..3 { h = h.matmul(w)?; h = h.exp()?.relu()?; } h.matmul(w)",
    ] {
        assert!(written(body) > 0, "{body}");
    }
    for body in [
        "let n = x.relu()?; if c { return n.matmul(w) } Ok(x.clone())",
        "let n = x.relu()?; if c { return Ok(x.clone()) } n.matmul(w)",
        "let n = x.relu()?; let m = if c { n.matmul(w)? } else { x.clone() }; Ok(m)",
        "let n = x.relu()?; for l in many { l.matmul(&n)?; } Ok(x.clone())",
        "let n = x.relu()?; let f = |y: &Tensor<F32>| y.matmul(&n); Ok(x.clone())",
        "for _ in 0..3 { let n = x.relu()?; if c { break } n.matmul(w)?; } Ok(x.clone())",
        "let mut n = x.matmul(w)?; for _ in 0..3 { n = n.matmul(w)?; } n.relu()?.matmul(w)",
    ] {
        assert_eq!(written(body), 0, "{body}");
    }
}

#[test]
fn what_is_only_narrowed_is_written_narrow() {
    for body in [
        "x.softmax(-1)?.matmul(w)",
        "let n = x.softmax(-1)?; n.matmul(w)",
        "let n = x.softmax(-1)?; amp_region!(bf16, enabled = c, { x.relu()?; }); n.matmul(w)",
        "let n: Tensor<F32> = x.softmax(-1)?; n.matmul(w)",
        "let n = x.softmax(-1)?; let m = n.clone(); m.matmul(w)? + n.matmul(w)?",
        "let n = x.softmax(-1)?.relu()?.abs()?.reshape([n.dims()[0], 4])?.t()?; n.matmul(w)",
        "let n = x.softmax(-1)?; let d = n.dims()[0]; n.matmul(w)?.reshape([d])",
        "let n = x.softmax(-1).unwrap(); Ok(Tensor::matmul(w, &n).unwrap())",
        "let n = Tensor::softmax(x, -1)?; n.to::<BF16>()?.matmul(w)",
        "let n = x.softmax(-1)?; for _ in 0..3 { w.matmul(&n)?; } Ok(x.clone())",
        "let n = x.softmax(-1)?; let f = |y: &Tensor<F32>| y.matmul(&n); f(w)",
        "let n = if c { x.softmax(-1)? } else { return Ok(x.clone()) }; n.matmul(w)",
        "let n = x.softmax(-1)?; self.linear.forward(&n)",
        "let n = x.softmax(-1)?; self.layer().forward(&n)",
        "let n = x.softmax(-1)?; let i = 1; self.linears[i].forward(&n)",
        "let n = x.softmax(-1)?; for (l, _) in self.linears.iter().zip(&self.others) { l.forward(&n)?; } Ok(x.clone())",
        "let n = { let m = x.softmax(-1)?; m.relu()? }; self.linear.forward(&n)",
        "let mut n = x.softmax(-1)?; n = n.relu()?; n.matmul(w)",
        "let mut n = x.clone(); n = n.softmax(-1)?; n = n.matmul(w)?; n = n.tanh()?; Ok(n)",
        "let mut h = x.clone(); for _ in 0..3 { let mut n = h.softmax(-1)?; n = n.abs()?; h = n.matmul(w)?; } Ok(h)",
        "let mut n = x.softmax(-1)?; let mut m = x.clone(); (n, m) = (m, n); m.matmul(w)",
    ] {
        assert_eq!(written(body), 1, "{body}");
    }
    for body in [
        "let n; if c { n = x.softmax(-1)?; } else { n = x.clone(); } n.matmul(w)",
        "let n = if c { x.softmax(-1)? } else { x.clone() }; n.matmul(w)",
        "let n = match c { 0 => x.softmax(-1)?, 1 => x.matmul(w)?, _ => bail!(c) }; n.matmul(w)",
        "let n = match c { d if { n = x; d } => return Ok(w.clone()), _ => x.softmax(-1)? }; n.matmul(w)",
        "let mut n = x.softmax(-1)?; if c { n = n.relu()?; } n.matmul(w)",
        "let mut n = x.clone(); if c { n = n.softmax(-1)?; } n.matmul(w)",
        "let mut n = x.clone(); if c { n = n.softmax(-1)?; n.matmul(w)?; return Ok(w.clone()) } Ok(n)",
        "let mut n = x.clone(); let b = c && { n = n.softmax(-1)?; true }; n.matmul(w)",
        "let mut h = x.clone(); for _ in 0..3 { let m = h.matmul(w)?; h = m.softmax(-1)?; } h.matmul(w)",
        "let mut h = x.clone(); while c { h.matmul(w)?; h = h.matmul(w)?.softmax(-1)?; } h.matmul(w)",
        "let mut h = x.clone(); loop { if c { continue; } h = h.matmul(w)?.softmax(-1)?; if d { break; } } h.matmul(w)",
        "let mut h = x.clone(); loop { let n = h.matmul(w)?.softmax(-1)?; if d { break; } h = n; } w.matmul(&h)",
        "let n = loop { if c { break x.softmax(-1)?; } }; n.matmul(w)",
        "let n = 'a: { if c { break 'a x.softmax(-1)?; } w.clone() }; n.matmul(w)",
        "let Some(m) = c else { return Ok(x.clone()) }; let n = { x.softmax(-1)? }; n.matmul(m)",
        "let n; loop { n = x.softmax(-1)?; break; } n.matmul(w)",
        "let mut h = x.clone(); for l in &self.layers { h = l.linear.forward(&h)?.softmax(-1)?; } self.linear.forward(&h)",
        "let (a, b) = (x.softmax(-1)?, w); a.matmul(b)",
        "let (a, b) = { let n = x.softmax(-1)?; (n, w) }; a.matmul(b)",
        "let (a, b) = if c { (x.softmax(-1)?, w.clone()) } else { (x.clone(), w.tanh()?) }; a.matmul(&b)",
        "let f = |y: &Tensor<F32>| y.softmax(-1); f(x)?.matmul(w)",
        "let n = x.softmax(-1)?; let f = move || n; f().matmul(w)",
        "let f = |y: &Tensor<F32>| { let n = y.softmax(-1)?; n.relu() }; let n = f(x)?; n.matmul(w)? + f(w)?.matmul(w)?",
        "let (mut a, b); (a, b) = (x.softmax(-1)?, w); a.matmul(b)",
        "let t = (x.softmax(-1)?, w); t.0.matmul(t.1)",
        "let t = (x.softmax(-1)?, w); keep(&t.1); t.0.matmul(w)?; t.0.matmul(t.1)",
        "let t = ((1, x.softmax(-1)?), w); let r = &t; r.0.1.matmul(w)",
        "let t = ((1, x.softmax(-1)?), w); let u = t.0; u.1.matmul(w)",
        "let t = ((1, x.softmax(-1)?), w); let ((_, n), _) = t; n.matmul(w)",
        "let t: (Tensor<F32>, usize) = (x.softmax(-1)?, 3); t.0.matmul(w)",
        "let mut t = (x.clone(), w); t.0 = x.softmax(-1)?; t.0.matmul(w)",
        "let mut t = (x.clone(), w); t.0.tanh()?; t = (x.softmax(-1)?, w); t.0.matmul(w)",
        "let mut t = (x.clone(), w); for _ in 0..3 { t = (t.0.matmul(w)?.softmax(-1)?, w); } t.0.matmul(w)",
        "let mut t = (x.clone(), w); for _ in 0..3 { t.0 = t.0.matmul(w)?.softmax(-1)?; } t.0.matmul(w)",
        "let t; if c { t = (x.softmax(-1)?, 1); } else { t = (x.clone(), 2); } t.0.matmul(w)",
        "let t = if c { (x.softmax(-1)?, 1) } else { (x.clone(), 2) }; t.0.matmul(w)",
        "let f = || { let t = (x.softmax(-1)?, w); t.0.matmul(w) }; f()",
        "let n = x.softmax(-1)?; let s = Saved { n }; s.n.matmul(w)",
        "let s = Saved { n: x.softmax(-1)?, m: w }; s.n.matmul(s.m)",
        "let s = Saved { pair: (x.softmax(-1)?, w), m: 3 }; s.pair.0.matmul(w)",
        "let s = Saved { n: x.softmax(-1)?, m: w }; let Saved { n, .. } = s; n.matmul(w)",
        "let mut s = Saved { n: x.clone(), m: w }; s.n = x.softmax(-1)?; s.n.matmul(s.m)",
    ] {
        assert_eq!(written(body), 1, "{body}");
    }
    let both = "let a = x.softmax(-1)?; let b = if c { a } else { x.log_softmax(-1)? }; b.matmul(w)";
    assert_eq!(written(both), 2);
    assert_eq!(written("Tensor::cat(&[&x.softmax(-1)?, &x.log_softmax(-1)?], 0)?.matmul(w)"), 2);
}

#[test]
fn exchanged_variables_are_read_before_either_is_written() {
    for (body, count) in [
        ("let mut n = x.softmax(-1)?; let mut m = x.clone(); (n, m) = (m, n); m.matmul(w)", 1),
        ("let mut n = x.softmax(-1)?; let mut m = x.clone(); (n, m) = (m, n); n.matmul(w)?.add(&m)", 0),
        ("let mut n = x.softmax(-1)?; let mut m = x.clone(); ((n, m), _) = ((m, n), 1); n.matmul(w)?.add(&m)", 0),
        ("let mut n = x.softmax(-1)?; let mut m = x.clone(); ((n, m), _) = (both(m, n), 1); n.matmul(w)?.add(&m)", 0),
    ] {
        assert_eq!(written(body), count, "{body}");
    }
}

/// Rows of `full` operations that give nothing to write narrow, each with its reason.
const NOT_WRITTEN: &[(&str, &str)] = &[
    ("multinomial", "gives positions, which are no floats"),
    ("item", "gives a number of the host"),
    ("to_vec", "gives numbers of the host"),
    ("mse_loss", LOSS),
    ("mse_loss_with", LOSS),
    ("l1_loss", LOSS),
    ("l1_loss_with", LOSS),
    ("smooth_l1_loss", LOSS),
    ("smooth_l1_loss_with", LOSS),
    ("huber_loss", LOSS),
    ("huber_loss_with", LOSS),
    ("nll_loss", LOSS),
    ("nll_loss_with", LOSS),
    ("cross_entropy", LOSS),
    ("cross_entropy_with", LOSS),
    ("soft_cross_entropy", LOSS),
    ("soft_cross_entropy_with", LOSS),
    ("kl_div", LOSS),
    ("kl_div_with", LOSS),
    ("bce_with_logits", LOSS),
    ("bce_with_logits_with", LOSS),
    ("margin_ranking_loss", LOSS),
    ("cosine_embedding_loss", LOSS),
    ("triplet_margin_loss", LOSS),
    ("poisson_nll_loss", LOSS),
    ("poisson_nll_loss_with", LOSS),
    ("gaussian_nll_loss", LOSS),
    ("gaussian_nll_loss_with", LOSS),
    ("hinge_embedding_loss", LOSS),
    ("hinge_embedding_loss_with", LOSS),
    ("soft_margin_loss", LOSS),
    ("soft_margin_loss_with", LOSS),
    ("multi_margin_loss", LOSS),
    ("multi_margin_loss_with", LOSS),
    ("multilabel_margin_loss", LOSS),
    ("multilabel_margin_loss_with", LOSS),
    ("multilabel_soft_margin_loss", LOSS),
    ("multilabel_soft_margin_loss_with", LOSS),
    ("ctc_loss", LOSS),
    ("ctc_loss_with", LOSS),
    ("lp_pool2d", COMPOSED),
    ("corrcoef", COMPOSED),
    ("cov", COMPOSED),
    ("gumbel_softmax", COMPOSED),
    ("local_response_norm", COMPOSED),
    ("pdist", COMPOSED),
    ("renorm", COMPOSED),
    ("upsample_bicubic2d", COMPOSED),
    ("upsample_linear1d", COMPOSED),
    ("upsample_nearest1d", COMPOSED),
    ("upsample_nearest3d", COMPOSED),
    ("upsample_trilinear3d", COMPOSED),
    ("quantile", COMPOSED),
    ("nanquantile", COMPOSED),
    ("quantile_all", COMPOSED),
    ("nanquantile_all", COMPOSED),
    ("nanmean", COMPOSED),
    ("logcumsumexp", COMPOSED),
    ("matrix_norm", COMPOSED),
    ("cholesky", FACTORS),
    ("cholesky_solve", FACTORS),
    ("solve_triangular", FACTORS),
    ("solve", FACTORS),
    ("inverse", FACTORS),
    ("det", COMPOSED),
    ("slogdet", "gives two tensors"),
    ("logdet", COMPOSED),
    ("cumulative_trapezoid", COMPOSED),
    ("cumulative_trapezoid_over", COMPOSED),
    ("trapezoid", COMPOSED),
    ("trapezoid_over", COMPOSED),
    ("var_mean", "gives two tensors"),
    ("std_mean", "gives two tensors"),
];
const FACTORS: &str = "is computed in place, in F32 from the first step to the last";
const COMPOSED: &str = "is composed of other operations, the last of which would have to write narrow";
const LOSS: &str = "gives the number that is scaled and differentiated, which nothing multiplies by a matrix";

#[test]
fn every_full_operation_is_written_narrow_or_has_a_reason() {
    let full = || amp_policy::all().filter(|op| op.implemented && op.class == amp_policy::Class::Full);
    for op in full() {
        let (name, excepted) = (op.name, NOT_WRITTEN.iter().any(|(known, _)| *known == op.name));
        let others = "x, ".repeat(op.tensors.len() - 1);
        let n = if name == "batch_norm_train" { "let (n, _)" } else { "let n" };
        let body = format!("{n} = x.{name}({others}1)?; n.matmul(w)");
        assert_eq!(written(&body), usize::from(!excepted), "{body}");
    }
    for (name, reason) in NOT_WRITTEN {
        assert!(full().any(|op| op.name == *name), "{name} is no implemented `full` operation ({reason})");
    }
}

#[test]
fn what_somebody_needs_in_f32_is_not() {
    for body in [
        "let n = x.softmax(-1)?; macro_rules! n { () => { n.clone() } } n.matmul(w)?; Ok(n!())",
        "let mut n; macro_rules! n { () => { n.clone() } } n = x.softmax(-1)?; n.matmul(w)?; Ok(n!())",
        "let n = (x.softmax(-1)?, w); macro_rules! n { () => { n.0.clone() } } n.0.matmul(w)?; Ok(n!())",
        "x.softmax(-1)",
        "let n = x.softmax(-1)?; n.matmul(w)?; Ok(n)",
        "let n = x.softmax(-1)?; if c { return Ok(n); } n.matmul(w)",
        "let n = x.softmax(-1)?; n.matmul(w)? + n",
        "let n = x.softmax(-1)?; n.matmul(w)?; n.layer_norm([4], None, None, 1e-5)",
        "let n = x.softmax(-1)?; keep(&n); n.matmul(w)",
        "let n = x.softmax(-1)?; n.stored_dtype(); n.matmul(w)",
        "let n = x.softmax(-1)?; println!(\"{n:?}\"); n.matmul(w)",
        "let n = x.softmax(-1)?; unknown!(n); n.matmul(w)",
        "let n = x.softmax(-1)?; self.last = n.clone(); n.matmul(w)",
        "let n = x.softmax(-1)?; let s = Saved { n, m: w }; keep(&s); s.n.matmul(w)",
        "let n = x.softmax(-1)?; let s = Saved { n, m: w }; s.forward(w)?; s.n.matmul(w)",
        "let n = x.softmax(-1)?; let s = Saved { n, ..self.saved() }; let Saved { n, .. } = s; n.matmul(w)?; Ok(n)",
        "let t = (x.softmax(-1)?, w); let u = t.clone(); u.0.tanh()?; t.0.matmul(w)",
        "let t = (x.softmax(-1)?, w); t.0.matmul(w)? + t.0",
        "let t = (x.softmax(-1)?, w); println!(\"{t:?}\"); t.0.matmul(w)",
        "let t = ((x.softmax(-1)?, 3), w); let u = t.0; u.0.matmul(w)?; u.0.tanh()",
        "let mut t = (x.softmax(-1)?, w); change(&mut t.0); t.0.matmul(w)",
        "let mut t = (x.softmax(-1)?, w); change(&mut t); t.0.matmul(w)",
        "let mut t = (x.clone(), w); if c { t = (x.softmax(-1)?, w); } t.0.matmul(w)?; t.0.tanh()",
        "let mut t = pair(); for _ in 0..3 { t.0.tanh()?; t = (x.softmax(-1)?, w); } Ok(x.clone())",
        "let mut t = pair(); for _ in 0..3 { keep(&t); t = (x.softmax(-1)?, w); } Ok(x.clone())",
        "let mut t = (x.clone(), w); for _ in 0..3 { t.0.tanh()?; t.0 = x.softmax(-1)?; } t.0.matmul(w)",
        "let mut t = (x.clone(), w); let mut f = || { t.0 = x.softmax(-1).unwrap(); }; f(); t.0.matmul(w)?; t.0.tanh()",
        "let mut t = (x.softmax(-1)?, w); t.0 += w; t.0.matmul(w)",
        "let t = (x.softmax(-1)?, w); match t { (n, _) => n.matmul(w) }",
        "let (a, b) = (x.softmax(-1)?, w); a.matmul(b)? + a",
        "let f = |y: &Tensor<F32>| y.softmax(-1); f(x)?.matmul(w)?; f(x)",
        "let f = |y: &Tensor<F32>| y.softmax(-1); f(x)?.matmul(w)?; apply(&f, x)",
        "let f = |y: &Tensor<F32>| y.softmax(-1); f(x)?.matmul(w)?; list.iter().map(f).collect()",
        "let f = |y: &Tensor<F32>| -> Result<Tensor<F32>> { y.softmax(-1) }; f(x)?.matmul(w)",
        "let f = |y: &Tensor<F32>| { if c { return y.softmax(-1); } y.clone() }; f(x)?.matmul(w)",
        "let n = list.iter().map(|y| y.softmax(-1)).next().unwrap()?; n.matmul(w)",
        "let pair = (x.softmax(-1)?, w); pair.0.matmul(pair.1)?; Ok(pair)",
        "let n; if c { n = x.softmax(-1)?; } else { n = x.clone(); } Ok(n)",
        "let n; if c { n = x.softmax(-1)?; n.matmul(w)?; } else { n = x.clone(); } Ok(n)",
        "let mut n = x.clone(); for _ in 0..3 { n.tanh()?; n = n.matmul(w)?.softmax(-1)?; } n.matmul(w)",
        "let mut n = x.clone(); for _ in 0..3 { n.matmul(w)?; n = n.softmax(-1)?; } n.matmul(w)",
        "let mut n = x.clone(); for _ in 0..3 { n.matmul(w)?; n = n.softmax(-1)?; } Ok(n)",
        "let mut n = x.clone(); while n.tanh()?.item()? > 0.0 { n = x.softmax(-1)?; } n.matmul(w)",
        "let mut n = x.clone(); loop { n = x.softmax(-1)?; if c { break; } n = x.clone(); } n.tanh()",
        "let mut n = x.clone(); loop { n.tanh()?; n = x.softmax(-1)?; if c { continue; } n = x.clone(); }",
        "let mut n = x.clone(); 'a: { n = x.softmax(-1)?; if c { break 'a; } n = x.clone(); } n.tanh()",
        "let n = loop { if c { break x.softmax(-1)?; } }; n.matmul(w)?; Ok(n)",
        "let mut n = x.clone(); let mut f = || { n = x.softmax(-1).unwrap(); n.matmul(w); }; f(); Ok(n)",
        "let mut n = x.softmax(-1)?; let f = || { n.tanh() }; f()?; n.matmul(w)",
        "let mut n = x.clone(); let r = &mut n; *r = x.softmax(-1)?; n.matmul(w)",
        "let mut n = x.clone(); match c { _ if { n = x.softmax(-1)?; c } => n = x.clone(), _ => {} } n.tanh()",
        "let n = x.softmax(-1)?; n[0].matmul(w)",
        "let n = x.softmax(-1)?.tanh()?; n.matmul(w)",
        "let n = x.softmax(-1)?.max_pool2d(2)?; n.matmul(w)",
        "let n = x.softmax(-1)?; let y = amp_region!(f32, n.matmul(w)?); Ok(y)",
        "let n = x.softmax(-1)?; let y = amp_region!(f16, n.matmul(w)?); Ok(y)",
        "let n = x.softmax(-1)?; let y = amp_region!(bf16, enabled = c, n.matmul(w)?); Ok(y)",
        "let n = x.softmax(-1)?; n.matmul(w)?; amp_region!(bf16, policy = p, n.matmul(w))",
        "let n = x.softmax(-1)?; unknown.matmul(&n)",
        "let n = x.softmax(-1)?; self.layer()?.forward(&n)",
        "let n = x.softmax(-1)?; self.layer(|x| x).forward(&n)",
        "let n = x.softmax(-1)?; Ok(x.clone())",
        "let mut n = x.softmax(-1)?; change(&mut n); n.matmul(w)",
        "let mut n = x.softmax(-1)?; n = n.tanh()?; n.matmul(w)",
        "let mut n = x.softmax(-1)?; n += w; n.matmul(w)",
    ] {
        assert_eq!(written(body), 0, "{body}");
    }
}

#[test]
fn narrowing_what_was_written_narrow_costs_nothing() {
    let costed = |body: &str| -> Vec<String> {
        plan("bf16", body)
            .iter()
            .map(|row| row.rsplit(" | ").next().unwrap().trim_end_matches(" |").to_owned())
            .collect()
    };
    assert_eq!(costed("x.softmax(-1)?.matmul(w)"), ["0", "1"]);
    assert_eq!(costed("let n = x.softmax(-1)?.relu()?; n.matmul(w)?; n.t()?.matmul(w)"), ["0", "0", "1", "0", "0"]);
    assert_eq!(costed("let n = x.softmax(-1)?; self.linear.forward(&n)"), ["0", "0"]);
    // One of them may not narrow it, and then the other one pays.
    assert_eq!(costed("let n = x.softmax(-1)?; self.a.forward(&n)?; self.b.forward(&n)"), ["0", "1", "1"]);
    assert_eq!(costed("let n = x.softmax(-1)?; n.matmul(w)? + n"), ["0", "2", "0"]);
}

#[test]
fn signs_are_seen_through_where_no_small_value_becomes_zero() {
    let written = |half, body| -> Vec<bool> { plan(half, body).iter().map(|row| row.contains(" as ")).collect() };
    for body in ["x.softmax(-1)?.relu()?.matmul(w)", "x.softmax(-1)?.abs()?.matmul(w)"] {
        assert_eq!(written("bf16", body), [true, false, false]);
        assert_eq!(written("f16", body), [false, true, false]);
    }
    assert_eq!(written("f16", "x.softmax(-1)?.neg()?.matmul(w)"), [true, false, false]);
    assert_eq!(written("bf16", "x.relu()?.matmul(w)"), [true, false]);
    assert_eq!(written("f16", "x.matmul(w)?.relu()?.matmul(w)"), [false, false, false]);
}
