//! Learning rates and weight decays in device memory, where updates read them: a replayed step takes the present ones, and the
//! host need not wait to change them.

use crate::backend::Buffer;
use crate::raw::RawTensor;
use crate::{Device, Error, Result};
use amp_cpu::{Dims, Storage};

/// Learning rate, weight decay, and the learning rate that schedules multiply.
pub(super) type Rate = [f64; 3];

/// What a device knows of the rates of an optimizer's groups.
#[derive(Debug)]
pub(super) struct Rates {
    device: Device,
    memory: Buffer,
    /// What the host wrote last.
    written: Vec<Rate>,
    /// Whether a schedule has changed them on the device since, so that the host does not know them.
    moved: bool,
}

impl Rates {
    /// The rates in the device's memory; `None` for devices that get them with every update.
    pub(super) fn new(device: &Device, rates: Vec<Rate>) -> Result<Option<Self>> {
        let memory = device.backend().rates(&rates)?;
        Ok(memory.map(|memory| Self { device: device.clone(), memory, written: rates, moved: false }))
    }

    pub(super) fn memory(&self) -> &Buffer {
        &self.memory
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Gives the device other rates, in the order of its work.
    pub(super) fn write(&mut self, rates: Vec<Rate>) -> Result<()> {
        if rates == self.written && !self.moved {
            return Ok(());
        }
        let shape = Dims::new(&[rates.len(), 3]).expect("two dimensions");
        let values = self.device.backend().upload(Storage::from(rates.concat()))?;
        let values = RawTensor::new(&self.device, values, shape);
        self.device.backend().overwrite(values.operand()?, &self.memory)?;
        (self.written, self.moved) = (rates, false);
        Ok(())
    }

    /// A schedule is about to change them on the device.
    pub(super) fn move_on(&mut self) {
        self.moved = true;
    }

    /// The rates as they are; waits for the device if a schedule has moved them there.
    pub(super) fn read(&self) -> Result<Vec<Rate>> {
        if !self.moved {
            return Ok(self.written.clone());
        }
        match self.device.backend().download(&self.memory)? {
            Storage::F64(rates) => Ok(rates.chunks_exact(3).map(|r| [r[0], r[1], r[2]]).collect()),
            other => {
                Err(Error::Unsupported { op: "learning_rate", device: self.device.name().into(), dtype: other.dtype() })
            }
        }
    }
}
