//! Random numbers: every device draws what the CPU draws.

use crate::{devices, seeding};
use amp::prelude::*;

#[test]
fn every_device_draws_the_same_numbers() -> Result<()> {
    let _alone = seeding();
    let cpu = Device::cpu();
    let draws = |device: &Device| -> Result<Vec<Vec<i64>>> {
        amp::manual_seed(5);
        let weights = Tensor::<F32>::from_fn([3, 40], |i| (i[0] + i[1] % 7) as f32, &cpu)?.to_device(device)?;
        let shares = Tensor::<F32>::from_fn([300], |i| i[0] as f32 / 300.0, &cpu)?.to_device(device)?;
        Ok(vec![
            Tensor::<I64>::randint(-5, 90, [101], device)?.to_vec()?,
            Tensor::<I64>::randperm(67, device)?.to_vec()?,
            shares.bernoulli()?.to::<I64>()?.to_vec()?,
            weights.multinomial(5, false)?.to_vec()?,
            weights.multinomial(9, true)?.to_vec()?,
        ])
    };
    let expected = draws(&cpu)?;
    for device in &devices() {
        assert_eq!(draws(device)?, expected, "{device}");
    }
    Ok(())
}
