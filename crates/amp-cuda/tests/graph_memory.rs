//! What memory a graph keeps, on the driver whose device is emulated: all that its step used, and nothing of others.

#[path = "standin/mod.rs"]
mod standin;

use amp_core::backend::ScaleRule;
use amp_core::cuda::{Graph, Input};
use amp_core::{Device, F32, I64, Result, Tensor};

#[test]
fn results_of_one_graph_stay_for_another_that_reads_them() -> Result<()> {
    let (standin, _alone) = standin::open();
    let device = Device::cuda(0)?;
    let x = Tensor::<F32>::full([300], 2.0, &device)?;
    // What a device keeps for all graphs comes with the first.
    Graph::capture(&device, || Ok(()))?;
    let before = standin.bytes();
    let first = Graph::capture(&device, || &x + &x)?;
    let fake = first.replay()?;
    let second = Graph::capture(&device, || {
        // Its own memory, which `capture` would count if the graph kept more of it than it returns.
        let y = (&fake * 2.0)?;
        &y + 1.0
    })?;
    drop((fake, first));
    let others: Vec<_> = (0..20).map(|_| Tensor::<F32>::full([300], f32::NAN, &device)).collect::<Result<_>>()?;
    assert_eq!(second.replay()?.to_vec()?, [9.0; 300]);
    drop((others, second));
    assert_eq!(standin.bytes(), before, "all memory is given back");
    Ok(())
}

#[test]
fn what_other_threads_use_meanwhile_is_not_kept() -> Result<()> {
    let (standin, _alone) = standin::open();
    let device = Device::cuda(0)?;
    // What a device keeps for all graphs comes with the first.
    Graph::capture(&device, || Ok(()))?;
    let before = standin.bytes();
    let others = Input::new(&Tensor::<F32>::ones([1 << 20], &device)?)?;
    let graph = Graph::capture(&device, || {
        let (own, device) = (Tensor::<F32>::ones([5], &device)?, device.clone());
        let other = std::thread::spawn(move || others.set(&others.tensor()).map(|()| device));
        let error = other.join().expect("no panic").expect_err("the thread's work would go into the graph");
        assert!(error.to_string().ends_with("another thread is capturing a graph"), "{error}");
        Ok(own)
    })?;
    let kept = standin.bytes() - before;
    assert!(kept < 4 << 20, "{kept} bytes, more than the chunk of the graph");
    assert_eq!(graph.replay()?.to_vec()?, [1.0; 5]);
    drop(graph);
    assert_eq!(standin.bytes(), before);
    Ok(())
}

#[test]
fn the_number_that_a_replay_shows_the_host_is_no_others() -> Result<()> {
    // As many as there are, so that the one which was given back is among them.
    const NUMBERS: usize = 512;
    let (_, _alone) = standin::open();
    let (device, gpu) = (Device::cuda(0)?, standin::gpu());
    let rule = ScaleRule { growth: 1, backoff: -1, interval: 2000, floor: 0, ceiling: 20, hysteresis: 1 };
    let mut state = gpu.scale_state([10, 0, 0, 7])?;
    let graph = Graph::capture(&device, || gpu.next_scale(&rule, &[], &mut state))?;
    drop(state);
    let others: Vec<_> = (0..NUMBERS).map(|_| gpu.scale_state([10, 0, 0, 5])).collect::<Result<_>>()?;
    let shown = || others.iter().map(|other| gpu.refused(other)).collect::<Result<Vec<_>>>();
    let before = shown()?;
    graph.replay()?;
    assert_eq!(shown()?, before);
    drop(graph);
    let last = gpu.scale_state([10, 0, 0, 6])?;
    assert_eq!(gpu.refused(&last)?, 6, "the number goes with the graph");
    Ok(())
}

/// What a device keeps for all checks of indices belongs to no graph, even if a graph has the first of them.
#[test]
fn the_first_check_of_an_index_may_be_captured() -> Result<()> {
    let (standin, _alone) = standin::open();
    let device = Device::cuda(0)?;
    let table = Tensor::<F32>::from_vec((0..8).map(|i| i as f32).collect(), [4, 2], &device)?;
    let index = Input::new(&Tensor::<I64>::from_vec(vec![3, 0], [2], &device)?)?;
    let graph = Graph::capture(&device, || table.index_select(0, &index.tensor()))?;
    assert_eq!(graph.replay()?.to_vec()?, [6.0, 7.0, 0.0, 1.0]);
    let before = standin.bytes();
    drop(graph);
    assert!(before - standin.bytes() >= 1 << 20 || !standin.counts(), "the chunk of the graph is given back");
    index.set(&Tensor::from_vec(vec![4, 0], [2], &device)?)?;
    let error = table.index_select(0, &index.tensor())?.to_vec().expect_err("the table has four rows").to_string();
    assert!(error.contains("index 4 is out of range for size 4"), "{error}");
    Ok(())
}
