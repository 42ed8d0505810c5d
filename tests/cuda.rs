//! The CUDA backend is part of a default build, and says what is missing where it cannot work.
#![cfg(feature = "cuda")]

use amp::{Device, Error};

#[test]
fn a_machine_without_a_gpu_is_told_why() {
    match Device::cuda(0) {
        Ok(device) => assert_eq!(Device::best(), device),
        Err(Error::DeviceUnavailable { device, reason }) => {
            assert_eq!(device, "cuda:0");
            assert!(!reason.contains("no CUDA backend"), "{reason}");
            assert!(Device::best().is_cpu(), "{reason}");
        }
        Err(other) => panic!("{other}"),
    }
}
