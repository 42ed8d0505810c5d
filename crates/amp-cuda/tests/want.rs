//! Want of memory that passes: what cuBLASLt and cuDNN need for themselves is asked for again. One test, in a process whose
//! libraries nobody else has opened.

#[path = "standin/mod.rs"]
mod standin;

use amp_core::cuda::Graph;
use amp_core::{ConvOptions, Device, F32, Result, Tensor};

#[test]
fn libraries_that_had_no_memory_for_a_while_work_when_there_is_some() -> Result<()> {
    const NOTHING: i32 = 0;
    const LARGE: i32 = 1;
    const LIBRARIES: i32 = 2;
    let (standin, _alone) = standin::open_with_products();
    if !standin.counts() {
        return Ok(());
    }
    let device = Device::cuda(0)?;
    let x = Tensor::<F32>::ones([1, 1, 4, 4], &device)?;
    let rows = |n: usize| x.reshape([16 / n, n]);
    let product = |n| rows(n)?.matmul(&rows(16 / n)?)?.to_vec().map(|_| ());
    let convolution = |n| {
        let kernel = Tensor::<F32>::ones([1, 1, n, n], &device)?;
        x.conv2d(&kernel, None, ConvOptions::default())?.to_vec().map(|_| ())
    };
    let wanting = |of, work: &dyn Fn() -> Result<()>| {
        standin.want(of);
        let message = work().expect_err("there is no memory").to_string();
        standin.want(NOTHING);
        message
    };
    // The first product opens cuBLASLt, the first of a size asks it for an algorithm; likewise with convolutions.
    let capture = || Graph::capture(&device, || Ok(())).map(|_| ());
    for work in [&|| product(2), &capture as &dyn Fn() -> Result<()>] {
        let message = wanting(LARGE, work);
        assert!(message.contains("out of memory: 33554432 bytes asked for"), "{message}");
    }
    for n in [2, 4] {
        let message = wanting(LIBRARIES, &|| product(n));
        assert!(message.contains("cuBLASLt"), "{message}");
        let message = wanting(LIBRARIES, &|| convolution(n));
        assert!(message.contains("cuDNN"), "{message}");
        let made = ["cublasLtMatmul", "cudnnConvolution"].map(|call| standin.calls(call) + 1);
        product(n)?;
        convolution(n)?;
        assert_eq!(["cublasLtMatmul", "cudnnConvolution"].map(|call| standin.calls(call)), made, "by the libraries");
    }
    Ok(())
}
