//! What memory a graph keeps, on the driver whose device is emulated: all that its step used, and nothing of others.

#[path = "standin/mod.rs"]
mod standin;

use amp_core::cuda::{Graph, Input};
use amp_core::{Device, F32, Result, Tensor};

#[test]
fn results_of_one_graph_stay_for_another_that_reads_them() -> Result<()> {
    let (standin, _alone) = standin::open();
    let device = Device::cuda(0)?;
    let x = Tensor::<F32>::full([300], 2.0, &device)?;
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
