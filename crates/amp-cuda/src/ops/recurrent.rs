use crate::device::Gpu;
use amp_core::backend::Recurrent;

impl Recurrent for Gpu {}
