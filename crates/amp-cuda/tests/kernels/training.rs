//! Optimizers, norms, finite checks and the loss scale, against the CPU's.

use crate::case::{Input, check_same, on_gpu, to_f64};
use amp_core::backend::{Backend, Buffer, DType, Operand, ScaleRule, Storage, UpdateRule, UpdateSlot};
use amp_core::{Error, Result};

fn zeros(b: &dyn Backend, like: &Operand<'_>) -> Result<Buffer> {
    b.fill(0.0, like.layout.count(), DType::F32)
}

/// Three updates of two parameters, one of them skipped; returns everything that an update may change.
fn updated(b: &dyn Backend, rule: &UpdateRule, x: &[Operand<'_>]) -> Result<Vec<Buffer>> {
    let half = b.fill(0.5, 1, DType::F32)?;
    let skips = [b.upload(Storage::U8(vec![0].into()))?, b.upload(Storage::U8(vec![1].into()))?];
    let mut results = Vec::new();
    for pair in x.chunks(2) {
        let mut master = b.copy(pair[0], DType::F32)?;
        let mut moments = rule.moments().iter().map(|_| zeros(b, &pair[0])).collect::<Result<Vec<_>>>()?;
        let mut copies = [b.copy(pair[0], DType::F16)?, b.copy(pair[0], DType::BF16)?];
        let mut steps = b.upload(Storage::I64(vec![0].into()))?;
        for skip in [None, Some(&skips[1]), Some(&skips[0])] {
            let slot = UpdateSlot {
                master: &mut master,
                grad: pair[1],
                moments: &mut moments,
                copies: copies.iter_mut().collect(),
                steps: &mut steps,
            };
            b.update(rule.into(), vec![slot], &[&half, &half], skip)?;
        }
        results.push(master);
        results.append(&mut moments);
        results.extend(copies);
        results.push(steps);
    }
    Ok(results)
}

#[test]
fn every_rule_updates_masters_state_and_copies_as_on_the_cpu() {
    let (lr, eps, weight_decay) = (0.1, 1e-8, 0.01);
    let rules = [
        UpdateRule::Sgd { lr, momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay: 0.0 },
        UpdateRule::Sgd { lr, momentum: 0.9, dampening: 0.1, nesterov: false, weight_decay },
        UpdateRule::Sgd { lr, momentum: 0.9, dampening: 0.0, nesterov: true, weight_decay },
        UpdateRule::Adam { lr, beta1: 0.9, beta2: 0.999, eps, weight_decay, decoupled: false, amsgrad: true },
        UpdateRule::Adam { lr, beta1: 0.9, beta2: 0.999, eps, weight_decay, decoupled: true, amsgrad: false },
        UpdateRule::RmsProp { lr, alpha: 0.99, eps, momentum: 0.0, centered: false, weight_decay },
        UpdateRule::RmsProp { lr, alpha: 0.99, eps, momentum: 0.9, centered: true, weight_decay: 0.0 },
        UpdateRule::Adagrad { lr, lr_decay: 0.5, initial: 0.0, eps, weight_decay },
        UpdateRule::Adadelta { lr, rho: 0.9, eps: 1e-6, weight_decay },
        // Its first step is that of momentum, the second adapts.
        UpdateRule::RAdam { lr, beta1: 0.9, beta2: 0.6, eps, weight_decay, decoupled: true },
        UpdateRule::RAdam { lr, beta1: 0.9, beta2: 0.999, eps, weight_decay, decoupled: false },
        UpdateRule::Adamax { lr, beta1: 0.9, beta2: 0.999, eps, weight_decay },
        UpdateRule::Lion { lr, beta1: 0.9, beta2: 0.99, weight_decay },
        UpdateRule::NAdam { lr, beta1: 0.9, beta2: 0.999, eps, momentum_decay: 4e-3, weight_decay, decoupled: false },
        UpdateRule::NAdam { lr, beta1: 0.8, beta2: 0.9, eps, momentum_decay: 2.0, weight_decay, decoupled: true },
    ];
    for rule in rules {
        let inputs: Vec<Input> = [(37, 1), (37, 2), (5000, 3), (5000, 4)]
            .iter()
            .map(|&(n, seed)| Input::noise(&[n], DType::F32, 1.0, seed))
            .collect();
        check_same(&format!("{rule:?}"), &inputs, DType::F32, 60.0, &|b, x, _| updated(b, &rule, x));
    }
}

/// Whole quads of four and single elements.
#[test]
fn infinite_weights_without_decay_stay_as_they_are() {
    let (lr, eps, weight_decay) = (0.1, 1e-8, 0.0);
    let rules = [
        UpdateRule::Sgd { lr, momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay },
        UpdateRule::Adam { lr, beta1: 0.9, beta2: 0.999, eps, weight_decay, decoupled: false, amsgrad: false },
        UpdateRule::Adamax { lr, beta1: 0.9, beta2: 0.999, eps, weight_decay },
    ];
    for rule in rules {
        let mut inputs = [Input::noise(&[37], DType::F32, 1.0, 1), Input::noise(&[37], DType::F32, 1.0, 2)];
        for (at, infinite) in [(5, f64::INFINITY), (11, f64::NEG_INFINITY), (36, f64::INFINITY)] {
            inputs[0].values[at] = infinite;
        }
        let masters = on_gpu(&format!("{rule:?}"), &inputs, DType::F32, &|b, x, _| updated(b, &rule, x));
        let masters = to_f64(masters[0].clone());
        let infinite = [5, 11, 36].map(|at| masters[at]);
        assert_eq!(infinite, [f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY], "{rule:?}");
        assert_eq!(masters.iter().filter(|v| v.is_finite()).count(), 34, "{rule:?}");
        check_same(&format!("{rule:?}"), &inputs, DType::F32, 60.0, &|b, x, _| updated(b, &rule, x));
    }
}

/// Blocks are as many as the largest needs.
#[test]
fn parameters_of_all_sizes_are_updated_in_one_launch() {
    let (lr, eps, weight_decay) = (0.1, 1e-8, 0.01);
    let rule = UpdateRule::Adam { lr, beta1: 0.9, beta2: 0.999, eps, weight_decay, decoupled: true, amsgrad: false };
    let sizes = [1, 256, 257, 9000, 40_003, 300];
    // The last gradient begins where no four elements are read at once.
    let offset = |i: usize| usize::from(i == 2 * sizes.len() - 1);
    let input = |i: usize| Input::strided(&[sizes[i / 2]], &[1], offset(i), DType::F32, i as u64);
    let inputs: Vec<Input> = (0..2 * sizes.len()).map(input).collect();
    check_same("all sizes", &inputs, DType::F32, 60.0, &|b, x, _| {
        let mut masters = x.chunks(2).map(|pair| b.copy(pair[0], DType::F32)).collect::<Result<Vec<_>>>()?;
        let states = x.chunks(2).map(|pair| Ok([zeros(b, &pair[0])?, zeros(b, &pair[0])?]));
        let mut states = states.collect::<Result<Vec<_>>>()?;
        let mut steps =
            (0..sizes.len() as i64).map(|i| b.upload(Storage::I64(vec![i].into()))).collect::<Result<Vec<_>>>()?;
        let slots = masters.iter_mut().zip(&mut states).zip(&mut steps).zip(x.chunks(2));
        let slots = slots.map(|(((master, moments), steps), pair)| UpdateSlot {
            master,
            grad: pair[1],
            moments,
            copies: Vec::new(),
            steps,
        });
        b.update((&rule).into(), slots.collect(), &[], None)?;
        Ok([masters, states.into_iter().flatten().collect(), steps].concat())
    });
}

#[test]
fn rows_alone_are_updated_as_on_the_cpu() {
    let (lr, eps) = (0.1, 1e-8);
    let rules = [
        UpdateRule::Sgd { lr, momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay: 0.0 },
        UpdateRule::Adam { lr, beta1: 0.9, beta2: 0.999, eps, weight_decay: 0.0, decoupled: false, amsgrad: false },
        UpdateRule::Adagrad { lr, lr_decay: 0.0, initial: 0.0, eps, weight_decay: 0.0 },
    ];
    for (rule, width) in rules.iter().flat_map(|rule| [(rule, 7), (rule, 8)]) {
        let inputs = [
            Input::noise(&[9, width], DType::F32, 1.0, 1),
            Input::noise(&[3, width], DType::F32, 1.0, 2),
            Input::new(vec![0.0, 4.0, 8.0], &[3], DType::I64),
        ];
        check_same(&format!("rows by {rule:?}"), &inputs, DType::F32, 60.0, &|b, x, _| {
            let half = b.fill(0.5, 1, DType::F32)?;
            let skips = [b.upload(Storage::U8(vec![0].into()))?, b.upload(Storage::U8(vec![1].into()))?];
            let mut master = b.copy(x[0], DType::F32)?;
            let mut moments = rule.moments().iter().map(|_| zeros(b, &x[0])).collect::<Result<Vec<_>>>()?;
            let mut copies = [b.copy(x[0], DType::BF16)?];
            let mut steps = b.upload(Storage::I64(vec![0].into()))?;
            for skip in [None, Some(&skips[1]), Some(&skips[0])] {
                let (grad, copies) = (x[1], copies.iter_mut().collect());
                let slot = UpdateSlot { master: &mut master, grad, moments: &mut moments, copies, steps: &mut steps };
                b.update_rows(rule.into(), vec![(slot, x[2])], &[&half], skip)?;
            }
            Ok([vec![master, steps], moments, copies.into()].into_iter().flatten().collect())
        });
    }
}

#[test]
fn norms_and_flags_of_many_gradients() {
    let inputs: Vec<Input> = (0..90)
        .map(|i| {
            // A third begins at elements that no pack begins at.
            let mut x = Input::strided(&[1 + i * 7], &[1], usize::from(i % 3 == 1), DType::F32, i as u64);
            match i {
                3 => x.values[2] = f64::NAN,
                41 => x.values[100] = f64::INFINITY,
                77 => x.values[5] = 3e38,
                _ => {}
            }
            x
        })
        .collect();
    check_same("square sums", &inputs, DType::F32, 40.0, &|b, x, _| {
        let (two, half) = (b.fill(2.0, 1, DType::F32)?, b.fill(0.5, 1, DType::F32)?);
        let sums = b.square_sums(x, &[&two])?;
        let clean: Vec<usize> = (0..90).filter(|i| ![3, 41, 77].contains(i)).collect();
        let mut flags = vec![b.any_non_finite(&sums, &clean)?, b.any_non_finite(&sums, &[77, 2])?];
        flags.push(b.any_non_finite(&b.square_sums(&x[77..78], &[&two, &half])?, &[0])?);
        flags.push(sums);
        Ok(flags)
    });
}

#[test]
fn the_scale_moves_as_on_the_cpu() {
    let rules = [
        ScaleRule { growth: 1, backoff: -1, interval: 2, floor: 0, ceiling: 17, hysteresis: 1 },
        ScaleRule { growth: 4, backoff: -2, interval: 1, floor: -130, ceiling: 127, hysteresis: 2 },
        ScaleRule { growth: 0, backoff: 0, interval: 0, floor: 0, ceiling: 24, hysteresis: 1 },
    ];
    for rule in rules {
        check_same(&format!("{rule:?}"), &[], DType::F32, 0.0, &|b, _, _| {
            let mut state = b.scale_state([16, 0, 0, 0])?;
            let (clean, bad) = (b.upload(Storage::U8(vec![0].into()))?, b.upload(Storage::U8(vec![1].into()))?);
            let mut results = Vec::new();
            for i in 0..60 {
                let found = if i % 7 == 3 || i > 35 { &bad } else { &clean };
                b.next_scale(&rule, &[&clean, found], &mut state)?;
                let (scale, inverse) = b.scale_of(&state)?;
                results.extend([scale, inverse]);
            }
            results.push(state);
            Ok(results)
        });
    }
}

/// A scale that was raised from the floor has room again; one at the floor has not.
#[test]
fn a_backoff_that_lowers_the_scale_ends_the_refusals() {
    let rule = ScaleRule { growth: 1, backoff: -2, interval: 2, floor: 0, ceiling: 17, hysteresis: 2 };
    check_same("refusals", &[], DType::F32, 0.0, &|b, _, _| {
        let bad = b.upload(Storage::U8(vec![1].into()))?;
        let states = [[6, 0, 3, 3], [6, 0, 0, 3], [0, 0, 3, 3]];
        states
            .iter()
            .map(|numbers| {
                let mut state = b.scale_state(*numbers)?;
                b.next_scale(&rule, &[&bad], &mut state)?;
                Ok(state)
            })
            .collect()
    });
}

/// More flags than one launch takes, the last one set.
#[test]
fn the_scale_asks_any_number_of_flags() {
    let rule = ScaleRule { growth: 1, backoff: -1, interval: 1, floor: 0, ceiling: 17, hysteresis: 1 };
    check_same("flags", &[], DType::F32, 0.0, &|b, _, _| {
        let (clean, bad) = (b.upload(Storage::U8(vec![0].into()))?, b.upload(Storage::U8(vec![1].into()))?);
        let mut states = Vec::new();
        for count in [64, 65, 128, 300] {
            for last in [&clean, &bad] {
                let mut flags = vec![&clean; count];
                flags[count - 1] = last;
                let mut state = b.scale_state([6, 0, 0, 0])?;
                b.next_scale(&rule, &flags, &mut state)?;
                states.push(state);
            }
        }
        Ok(states)
    });
}

#[test]
fn averages_and_counters_move_unless_the_step_was_skipped() {
    for share in [0.0, 0.1, 0.5, 1.0] {
        let inputs = [
            Input::noise(&[700], DType::F32, 1.0, 1),
            Input::noise(&[700], DType::F16, 3.0, 2),
            Input::noise(&[700], DType::F32, 2.0, 3),
        ];
        check_same(&format!("average of share {share}"), &inputs, DType::F32, 2.0, &|b, x, _| {
            let flags = [b.upload(Storage::U8(vec![0].into()))?, b.upload(Storage::U8(vec![1].into()))?];
            let mut average = b.copy(x[0], DType::F32)?;
            let (mut mean, mut var) = (b.copy(x[0], DType::F32)?, b.copy(x[2], DType::F32)?);
            let mut counter = b.upload(Storage::I64(vec![7].into()))?;
            for skip in [None, Some(&flags[0]), Some(&flags[1])] {
                b.average(&mut average, x[1], share, skip)?;
                b.track([&mut mean, &mut var], ([x[1], x[0]], 1.25), &mut counter, share, skip)?;
            }
            Ok(vec![average, mean, var, counter])
        });
    }
}

#[test]
fn refused_backoffs_are_noticed_without_waiting() {
    let (standin, _alone) = crate::standin::open();
    let gpu = crate::standin::gpu();
    let rule = ScaleRule { growth: 1, backoff: -1, interval: 2, floor: 16, ceiling: 17, hysteresis: 1 };
    let (mut state, bad) = (gpu.scale_state([16, 0, 0, 0]).expect("a state"), gpu.upload(Storage::U8(vec![1].into())));
    let bad = bad.expect("an upload");
    let waits = || ["cuStreamSynchronize", "cuMemcpyDtoHAsync_v2"].map(|call| standin.calls(call));
    let before = waits();
    for refused in 1..=5 {
        gpu.next_scale(&rule, &[&bad], &mut state).expect("an update");
        assert_eq!(gpu.refused(&state).expect("a number"), refused);
    }
    assert_eq!(waits(), before);
}

#[test]
fn reports_count_what_is_not_finite() {
    let (_, _alone) = crate::standin::open();
    let gpu = crate::standin::gpu();
    let layout = amp_core::backend::Layout::contiguous(amp_core::Dims::new(&[4]).expect("rank 1"));
    let buffer = gpu.upload(Storage::F32(vec![1.0, f32::NAN, -7.5, f32::INFINITY].into())).expect("an upload");
    let x = Operand { buffer: &buffer, layout: &layout, logical: DType::F32 };
    assert_eq!(gpu.magnitude(x).expect("a report"), (2, 7.5), "of the others");
    let short = gpu.fill(0.0, 2, DType::F32).expect("a fill");
    let steps = &mut gpu.fill(0.0, 1, DType::I64).expect("a fill");
    let slot = UpdateSlot { master: &mut { short }, grad: x, moments: &mut [], copies: vec![], steps };
    let rule = UpdateRule::Sgd { lr: 0.1, momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay: 0.0 };
    let error = gpu.update((&rule).into(), vec![slot], &[], None).expect_err("the master is too short");
    assert!(matches!(error, Error::Backend { .. }), "{error}");
}
