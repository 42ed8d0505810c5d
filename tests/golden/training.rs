//! Optimizers, learning-rate schedules, GradScaler: their traces over several steps.

use amp::optim::{
    Adadelta, Adagrad, Adam, AdamW, Adamax, ConstantLr, CosineLr, Lbfgs, LinearLr, LinearWarmup, Lion, Muon, NAdam,
    OneCycle, RAdam, ReduceOnPlateau, RmsProp, Sgd, StepLr,
};
use amp::prelude::*;

use crate::case::Tolerance::Accumulated;
use crate::case::{Case, Out, Outs, Tolerance};
use crate::device;

/// Runs operation `op` on the inputs of `c`; `None` when this table has no such operation.
pub fn apply(op: &str, c: &Case) -> Result<Option<(Tolerance, Outs)>> {
    Ok(Some(match op {
        "optim_sgd" => (Accumulated, steps(c, |p| sgd(c, Sgd::new([p], c.float("lr"))))?),
        "optim_adam" => (Accumulated, steps(c, |p| adam(c, Adam::new([p], c.float("lr"))))?),
        "optim_adamw" => (Accumulated, steps(c, |p| adamw(c, AdamW::new([p], c.float("lr"))))?),
        "optim_rmsprop" => (Accumulated, steps(c, |p| rmsprop(c, RmsProp::new([p], c.float("lr"))))?),
        "optim_adadelta" => (Accumulated, steps(c, |p| adadelta(c, Adadelta::new([p], c.float("lr"))))?),
        "optim_adagrad" => (Accumulated, steps(c, |p| adagrad(c, Adagrad::new([p], c.float("lr"))))?),
        "optim_radam" => (Accumulated, steps(c, |p| radam(c, RAdam::new([p], c.float("lr"))))?),
        "optim_nadam" => (Accumulated, steps(c, |p| nadam(c, NAdam::new([p], c.float("lr"))))?),
        "optim_adamax" => (Accumulated, steps(c, |p| adamax(c, Adamax::new([p], c.float("lr"))))?),
        "optim_lion" => (Accumulated, steps(c, |p| lion(c, Lion::new([p], c.float("lr"))))?),
        "optim_muon" => (Accumulated, steps(c, |p| muon(c, Muon::new([p], c.float("lr"))))?),
        "optim_lbfgs" => (Accumulated, lbfgs(c)?),
        "schedule" => (Accumulated, schedule(c)?),
        "plateau" => (Accumulated, plateau(c)?),
        "grad_scaler" => (Accumulated, grad_scaler(c)?),
        _ => return Ok(None),
    }))
}

fn sgd(c: &Case, o: Sgd) -> Sgd {
    let o = o.momentum(c.float_or("momentum", 0.0)).dampening(c.float_or("dampening", 0.0));
    o.nesterov(c.flag("nesterov")).weight_decay(c.float_or("weight_decay", 0.0))
}

/// Sets the options of the Adam family that the case gives.
macro_rules! adam_options {
    ($c:ident, $o:ident) => {{
        let o = $o.amsgrad($c.flag("amsgrad")).eps($c.float_or("eps", 1e-8));
        let o = if $c.given("betas") { o.betas(($c.floats_of("betas")[0], $c.floats_of("betas")[1])) } else { o };
        if $c.given("weight_decay") { o.weight_decay($c.float("weight_decay")) } else { o }
    }};
}

fn adam(c: &Case, o: Adam) -> Adam {
    adam_options!(c, o)
}

fn adamw(c: &Case, o: AdamW) -> AdamW {
    adam_options!(c, o)
}

fn rmsprop(c: &Case, o: RmsProp) -> RmsProp {
    let o = o.alpha(c.float_or("alpha", 0.99)).eps(c.float_or("eps", 1e-8)).momentum(c.float_or("momentum", 0.0));
    o.centered(c.flag("centered")).weight_decay(c.float_or("weight_decay", 0.0))
}

fn adadelta(c: &Case, o: Adadelta) -> Adadelta {
    o.rho(c.float_or("rho", 0.9)).eps(c.float_or("eps", 1e-6)).weight_decay(c.float_or("weight_decay", 0.0))
}

fn adagrad(c: &Case, o: Adagrad) -> Adagrad {
    let o = o.lr_decay(c.float_or("lr_decay", 0.0)).eps(c.float_or("eps", 1e-10));
    let o = o.initial_accumulator_value(c.float_or("initial_accumulator_value", 0.0));
    o.weight_decay(c.float_or("weight_decay", 0.0))
}

/// The decay rates that a case gives, or these.
fn betas(c: &Case, usual: (f64, f64)) -> (f64, f64) {
    if c.given("betas") { (c.floats_of("betas")[0], c.floats_of("betas")[1]) } else { usual }
}

fn radam(c: &Case, o: RAdam) -> RAdam {
    let o = o.betas(betas(c, (0.9, 0.999))).eps(c.float_or("eps", 1e-8)).weight_decay(c.float_or("weight_decay", 0.0));
    o.decoupled_weight_decay(c.flag("decoupled_weight_decay"))
}

fn nadam(c: &Case, o: NAdam) -> NAdam {
    let o = o.betas(betas(c, (0.9, 0.999))).eps(c.float_or("eps", 1e-8)).weight_decay(c.float_or("weight_decay", 0.0));
    let o = o.momentum_decay(c.float_or("momentum_decay", 4e-3));
    o.decoupled_weight_decay(c.flag("decoupled_weight_decay"))
}

fn adamax(c: &Case, o: Adamax) -> Adamax {
    o.betas(betas(c, (0.9, 0.999))).eps(c.float_or("eps", 1e-8)).weight_decay(c.float_or("weight_decay", 0.0))
}

fn lion(c: &Case, o: Lion) -> Lion {
    o.betas(betas(c, (0.9, 0.99))).weight_decay(c.float_or("weight_decay", 0.0))
}

fn muon(c: &Case, o: Muon) -> Muon {
    let o = o.momentum(c.float_or("momentum", 0.95)).nesterov(!c.given("nesterov"));
    let o = o.weight_decay(c.float_or("weight_decay", 0.1)).eps(c.float_or("eps", 1e-7));
    let o = if c.given("ns_steps") { o.ns_steps(c.size("ns_steps")) } else { o };
    let o = match c.given("ns_coefficients") {
        true => {
            let of = c.floats_of("ns_coefficients");
            o.ns_coefficients(of[0], of[1], of[2])
        }
        false => o,
    };
    if c.given("adjust_lr_fn") { o.match_adamw() } else { o }
}

/// The parameter after each step, and the losses before.
fn lbfgs(c: &Case) -> Result<Outs> {
    let (p, steep, around) = (Parameter::new(&c.x(0))?, c.x(1).detach(), c.x(2).detach());
    let history = if c.given("history_size") { c.size("history_size") } else { 100 };
    let o = Lbfgs::new([p.clone()], c.float("lr")).max_iter(c.size("max_iter")).history_size(history);
    let o = if c.given("max_eval") { o.max_eval(c.size("max_eval")) } else { o };
    let mut optimizer = o.line_search(c.given("line_search_fn"));
    let loss = || {
        let x = p.tensor();
        ((&steep * (&x - &around)?.sqr()?)? + (x.sqr()?.sqr()? * 0.1)?)?.sum_all()
    };
    let (mut steps, mut losses) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        losses.push(optimizer.step(loss)? as f32);
        steps.push(p.detach());
    }
    let losses = Tensor::from_vec(losses, [3], &device())?;
    Ok(vec![Tensor::stack(&steps, 0)?, losses].into())
}

/// The parameter after each step; `in1` holds the gradient of each.
fn steps<O: Optimizer>(c: &Case, build: impl Fn(Parameter) -> O) -> Result<Outs> {
    let parameter = Parameter::new(&c.x(0))?;
    let mut optimizer = build(parameter.clone());
    let grads = c.x(1).detach();
    let mut trace = Vec::new();
    for i in 0..grads.dims()[0] {
        let loss = (parameter.tensor() * grads.select(0, i)?)?.sum_all()?;
        optimizer.step(&loss.backward()?)?;
        trace.extend(parameter.to_vec()?);
    }
    Ok(Tensor::<F32>::from_vec(trace, grads.dims(), grads.device())?.into())
}

/// The learning rate of each of 20 steps.
fn schedule(c: &Case) -> Result<Outs> {
    let parameter = Parameter::new(&Tensor::zeros([1], &device())?)?;
    let mut optimizer = Sgd::new([parameter], c.float("lr"));
    let steps = |key| c.int(key) as u64;
    let mut schedule: Box<dyn Schedule> = match c.name {
        "schedule/step_lr" => Box::new(StepLr::new(steps("step_size"), c.float("gamma"))),
        "schedule/linear_warmup" => Box::new(LinearWarmup::new(&mut optimizer, steps("total_iters") + 1)),
        "schedule/linear" => {
            let [start, end] = ["start_factor", "end_factor"].map(|key| c.float(key));
            Box::new(LinearLr::new(&mut optimizer, start, end, steps("total_iters")))
        }
        "schedule/constant" => Box::new(ConstantLr::new(&mut optimizer, c.float("factor"), steps("total_iters"))),
        "schedule/one_cycle" => Box::new(OneCycle::new(&mut optimizer, steps("total_steps"))?),
        "schedule/one_cycle_early_peak" => {
            let plain = OneCycle::new(&mut optimizer, steps("total_steps"))?;
            Box::new(plain.rising(&mut optimizer, c.float("pct_start"))?)
        }
        _ => Box::new(CosineLr::new(steps("T_max")).least(c.float_or("eta_min", 0.0) / c.float("lr"))),
    };
    let mut rates = Vec::new();
    for _ in 0..20 {
        rates.push(optimizer.learning_rate() as f32);
        schedule.step(&mut optimizer, &Step::taken())?;
    }
    Ok(Tensor::<F32>::from_vec(rates, [20], &device())?.into())
}

/// The learning rate after each of the measures of `in0`.
fn plateau(c: &Case) -> Result<Outs> {
    let parameter = Parameter::new(&Tensor::zeros([1], &device())?)?;
    let mut optimizer = Sgd::new([parameter], c.float("lr"));
    let plateau = ReduceOnPlateau::new(c.float("factor"), c.int("patience") as u64);
    let plateau = plateau.threshold(c.float_or("threshold", 1e-4)).least(c.float_or("min_lr", 0.0) / c.float("lr"));
    let plateau = if c.given("cooldown") { plateau.cooldown(c.int("cooldown") as u64) } else { plateau };
    let mut plateau = if c.given("mode") { plateau.rising() } else { plateau };
    let mut rates = Vec::new();
    for measure in c.x(0).to_vec()? {
        plateau.step(&mut optimizer, measure)?;
        rates.push(optimizer.learning_rate() as f32);
    }
    Ok(Tensor::<F32>::from_vec(rates, [20], &device())?.into())
}

/// Scale, growth tracker and parameter after each step; `in0` says in which the gradient is infinite.
fn grad_scaler(c: &Case) -> Result<Outs> {
    let device = device();
    let builder = GradScaler::builder().init_scale(c.float("init_scale") as f32);
    let mut scaler = builder.growth_interval(c.int("growth_interval") as u64).build(&device)?;
    let parameter = Parameter::new(&Tensor::zeros([1], &device)?)?;
    let mut optimizer = Sgd::new([parameter.clone()], c.float("lr"));
    let (mut scales, mut trackers, mut parameters) = (vec![], vec![], vec![]);
    for bad in c.index(0).to_vec()? {
        let factor = if bad == 1 { f32::INFINITY } else { 1.0 };
        let loss = (parameter.tensor() * factor)?.sum_all()?;
        let grads = scaler.scale(&loss)?.backward()?;
        scaler.step(&mut optimizer, grads)?;
        scaler.update()?;
        scales.push(scaler.scale_value()?);
        trackers.push(scaler.state()?.expect("an enabled scaler").growth_tracker as i64);
        parameters.extend(parameter.to_vec()?);
    }
    let n = scales.len();
    Ok(Outs(vec![
        Out::Float(Tensor::from_vec(scales, [n], &device)?),
        Out::Int(Tensor::from_vec(trackers, [n], &device)?),
        Out::Float(Tensor::from_vec(parameters, [n], &device)?),
    ]))
}
