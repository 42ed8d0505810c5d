//! What this library implements to be annotated: four short impls.

use crate::{Dtype, Tensor};
use amp::__private::{AutocastPrecision, Cast, Inside, Recast, RuntimePrecision, RuntimeToken, To};
use amp::Element;

impl Inside for Tensor {
    type Tensor = Self;
    fn inside(&self) -> &Self {
        self
    }
}

fn of<P: Element>() -> Dtype {
    match P::DTYPE {
        amp::DType::F16 => Dtype::F16,
        amp::DType::BF16 => Dtype::BF16,
        _ => Dtype::F32,
    }
}

/// F64 tensors are never touched.
fn cast(tensor: &Tensor, to: Dtype) -> Tensor {
    if tensor.dtype() == Dtype::F64 { tensor.clone() } else { tensor.to_dtype(to) }
}

impl<P: AutocastPrecision> Cast<To<P>> for Tensor {
    type Output = Self;
    fn cast(&self, _to: To<P>) -> Self {
        cast(self, of::<P>())
    }
}

/// Where tensors meet; nowhere, when neither precision holds the other: the operation then reports the mistake.
#[derive(Clone, Copy, Debug)]
pub struct Meeting(Option<Dtype>);

impl Cast<Meeting> for Tensor {
    type Output = Self;
    fn cast(&self, to: Meeting) -> Self {
        to.0.map_or_else(|| self.clone(), |to| cast(self, to))
    }
}

impl<P: AutocastPrecision> Recast<To<P>> for Tensor {
    type Output = Self;
    fn recast(self, _to: To<P>) -> Self {
        cast(&self, of::<P>())
    }
}

impl RuntimeToken for Meeting {
    fn widest(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(a), Some(b)) if a == b => self,
            (Some(Dtype::F32), Some(Dtype::F16 | Dtype::BF16)) | (Some(Dtype::F16 | Dtype::BF16), Some(Dtype::F32)) => {
                Self(Some(Dtype::F32))
            }
            _ => Self(None),
        }
    }
}

impl RuntimePrecision for Tensor {
    type Token = Meeting;
    fn token(&self) -> Meeting {
        Meeting(Some(self.dtype()))
    }
}
