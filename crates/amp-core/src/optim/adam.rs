use super::declare::optimizer;
use amp_cpu::optim::UpdateRule;

macro_rules! adam {
    ($(#[$doc:meta])* $name:ident, $op:literal, $weight_decay:literal, $decoupled:literal, $decay_doc:literal) => {
        optimizer! {
            $(#[$doc])*
            $name, $op,
            UpdateRule::Adam {
                lr: 0.0, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: $weight_decay, decoupled: $decoupled, amsgrad: false,
            },
            {
                /// Decay rates of the first and second moment (0.9 and 0.999 by default).
                betas: (f64, f64) => |rule, value| if let UpdateRule::Adam { beta1, beta2, .. } = rule {
                    (*beta1, *beta2) = value;
                };
                /// Added to the denominator (1e-8 by default).
                eps: f64 => |rule, value| if let UpdateRule::Adam { eps, .. } = rule { *eps = value };
                #[doc = $decay_doc]
                weight_decay: f64 => |rule, value| if let UpdateRule::Adam { weight_decay, .. } = rule {
                    *weight_decay = value;
                };
                /// Divides by the greatest second moment so far (off by default).
                amsgrad: bool => |rule, value| if let UpdateRule::Adam { amsgrad, .. } = rule { *amsgrad = value };
            }
        }
    };
}

adam! {
    /// Adam (`torch.optim.Adam`); weight decay is an L2 penalty.
    Adam, "Adam", 0.0, false, "L2 penalty (0 by default)."
}
adam! {
    /// Adam with decoupled weight decay (`torch.optim.AdamW`).
    AdamW, "AdamW", 0.01, true, "Decay of the weights per step, times the learning rate (0.01 by default)."
}

optimizer! {
    /// Adam that moves only the rows of a sparse gradient (`torch.optim.SparseAdam`): a row's moments stay as they are while
    /// it is not used, and one counter of steps corrects the bias of all.
    ///
    /// Dense gradients are treated as Adam does. The denominator is Adam's, `sqrt(v / (1 - beta2^t)) + eps`, where PyTorch's
    /// `SparseAdam` adds `eps` before the correction.
    ///
    /// ```
    /// # use amp_core::{nn::{Embedding, Module}, optim::{Optimizer, SparseAdam}, Device, I64, Tensor};
    /// # let device = Device::cpu();
    /// let table = Embedding::new(100_000, 8, &device)?.sparse(true);
    /// let mut optimizer = SparseAdam::new(table.parameters(), 1e-3);
    /// let words = Tensor::<I64>::from_vec(vec![7, 40_000, 7], [3], &device)?;
    /// let grads = table.forward(&words)?.sum_all()?.backward()?;
    /// let (rows, values) = grads.rows(table.weight())?.expect("two rows were used");
    /// assert_eq!((rows.to_vec()?, values.dims()), (vec![7, 40_000], [2, 8].as_slice()));
    /// optimizer.step(&grads)?;
    /// # Ok::<_, amp_core::Error>(())
    /// ```
    SparseAdam, "SparseAdam",
    UpdateRule::Adam {
        lr: 0.0, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0, decoupled: false, amsgrad: false,
    },
    lazy,
    {
        /// Decay rates of the first and second moment (0.9 and 0.999 by default).
        betas: (f64, f64) => |rule, value| if let UpdateRule::Adam { beta1, beta2, .. } = rule {
            (*beta1, *beta2) = value;
        };
        /// Added to the denominator (1e-8 by default).
        eps: f64 => |rule, value| if let UpdateRule::Adam { eps, .. } = rule { *eps = value };
    }
}
