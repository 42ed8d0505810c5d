//! Selecting elements by their values. The host counts them, so these operations wait for the device.

use super::kernel::{compare, zeros};
use crate::memory::on_host;
use crate::precision::{Bool, Element, I64, SamePrecision};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Device, Error, IntoShape, Result, shape};
use amp_cpu::{Compare, Storage};

/// Positions in row-major order of the elements of `x` that are not 0.
fn places(op: &'static str, x: &RawTensor) -> Result<Vec<i64>> {
    let zero = zeros(x, x.logical)?;
    let found = compare(op, Compare::Ne, x, &zero)?.to_storage()?;
    let Storage::Bool(found) = found else { return Ok(Vec::new()) };
    let count = found.iter().filter(|&&found| found).count();
    on_host(op, count, found.iter().enumerate().filter(|(_, found)| **found).map(|(place, _)| place as i64))
}

impl<P: Element> Tensor<P> {
    /// The coordinates of every element that is not 0, or true, in row-major order: `[K, rank]` (`torch.nonzero`,
    /// `torch.argwhere`). Waits for the device.
    #[doc(alias = "argwhere")]
    pub fn nonzero(&self) -> Result<Tensor<I64>> {
        let places = places("nonzero", &self.raw)?;
        let (shape, rank) = (*self.raw.shape(), self.rank());
        let coordinates = places.iter().flat_map(|&place| {
            let mut at = shape;
            let mut rest = place as usize;
            for axis in (0..rank).rev() {
                at[axis] = rest % shape[axis];
                rest /= shape[axis];
            }
            (0..rank).map(move |axis| at[axis] as i64)
        });
        let values = on_host("nonzero", places.len() * rank, coordinates)?;
        Tensor::from_vec(values, [places.len(), rank], self.device())
    }

    /// The elements where `mask` is true, in row-major order, as a line; both broadcast (`torch.masked_select`, `x[mask]`).
    /// Waits for the device.
    ///
    /// # Errors
    /// [`Error::Broadcast`] when the shapes do not broadcast.
    #[track_caller]
    pub fn masked_select(&self, mask: &Tensor<Bool>) -> Result<Self> {
        const OP: &str = "masked_select";
        self.device().check_same(mask.device(), OP)?;
        let shape = shape::broadcast(OP, self.raw.shape(), mask.raw.shape())?;
        let places = places(OP, &mask.raw.broadcast_to(OP, &shape)?)?;
        let count = places.len();
        let index = Tensor::<I64>::from_vec(places, [count], self.device())?;
        self.expand(shape)?.reshape([shape.count()])?.index_select(0, &index)
    }

    /// The elements with those of `source`, one after the other in row-major order, where `mask` is true
    /// (`torch.Tensor.masked_scatter`); tensor and mask broadcast. Waits for the device.
    ///
    /// # Errors
    /// [`Error::Broadcast`] when the shapes do not broadcast, [`Error::Argument`] when the source has too few elements.
    #[track_caller]
    pub fn masked_scatter<Q: Element>(&self, mask: &Tensor<Bool>, source: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        const OP: &str = "masked_scatter";
        self.device().check_same(mask.device(), OP)?;
        let shape = shape::broadcast(OP, self.raw.shape(), mask.raw.shape())?;
        let places = places(OP, &mask.raw.broadcast_to(OP, &shape)?)?;
        let (needed, found) = (places.len(), source.count());
        if found < needed {
            let expected = format!("{needed} elements or more, one for each place of the mask");
            return Err(Error::argument(OP, "the source", expected, found));
        }
        let index = Tensor::<I64>::from_vec(places, [needed], self.device())?;
        let source = source.reshape([found])?.narrow(0, 0, needed)?;
        self.expand(shape)?.reshape([shape.count()])?.index_copy(0, &index, &source)?.reshape(shape)
    }
}

macro_rules! triangles {
    ($($(#[$doc:meta])* $name:ident, $kept:ident;)*) => {
        impl Tensor<I64> { $(
            $(#[$doc])*
            /// `diagonal` counts upwards from the main one. Waits for the device.
            #[track_caller]
            pub fn $name(rows: usize, columns: usize, diagonal: i64, device: &Device) -> Result<Self> {
                const OP: &str = stringify!($name);
                let shape = [rows, columns].into_shape(OP)?;
                let all = Tensor::<Bool>::ones(shape, device).map_err(|error| error.named(OP))?;
                all.$kept(diagonal)?.nonzero()?.t()?.contiguous()
            }
        )* }
    };
}
triangles! {
    /// Rows and columns of what lies on or below a diagonal of a matrix, in row-major order: `[2, K]` (`torch.tril_indices`).
    tril_indices, tril;
    /// Rows and columns of what lies on or above a diagonal of a matrix, in row-major order: `[2, K]` (`torch.triu_indices`).
    triu_indices, triu;
}

#[cfg(test)]
mod tests {
    use crate::{BF16, Device, F16, F32, F64, I64, Tensor, gradcheck};

    #[test]
    fn elements_are_found_in_row_major_order_of_any_view() {
        let x = Tensor::<F32>::from_slice(&[0.0, f32::NAN, -0.0, 1e-45, 2.0, 0.0], [2, 3], &Device::cpu()).unwrap();
        assert_eq!(x.nonzero().unwrap().to_vec().unwrap(), [0, 1, 1, 0, 1, 1]);
        assert_eq!(x.t().unwrap().nonzero().unwrap().to_vec().unwrap(), [0, 1, 1, 0, 1, 1]);
        assert_eq!(x.narrow(0, 1, 1).unwrap().to::<BF16>().unwrap().nonzero().unwrap().to_vec().unwrap(), [0, 1]);
        let found = x.isnan().unwrap().nonzero().unwrap();
        assert_eq!((found.dims(), found.to_vec().unwrap()), ([1, 2].as_slice(), vec![0, 1]));
        assert_eq!(x.sum_all().unwrap().nonzero().unwrap().dims(), [1, 0]);
        assert_eq!(Tensor::<I64>::zeros([0, 3], &Device::cpu()).unwrap().nonzero().unwrap().dims(), [0, 2]);
    }

    #[test]
    fn triangles_are_listed_in_row_major_order() {
        let listed = |places: crate::Result<Tensor<I64>>| {
            let places = places.unwrap();
            (places.dims().to_vec(), places.to_vec().unwrap())
        };
        let device = Device::cpu();
        assert_eq!(listed(Tensor::tril_indices(2, 3, 0, &device)), (vec![2, 3], vec![0, 1, 1, 0, 0, 1]));
        assert_eq!(listed(Tensor::triu_indices(3, 3, 1, &device)), (vec![2, 3], vec![0, 0, 1, 1, 2, 2]));
        assert_eq!(listed(Tensor::tril_indices(2, 2, -2, &device)), (vec![2, 0], vec![]));
        assert_eq!(listed(Tensor::triu_indices(0, 3, 0, &device)), (vec![2, 0], vec![]));
        let error = Tensor::tril_indices(1 << 22, 1 << 23, 0, &device).unwrap_err().to_string();
        assert!(error.starts_with("tril_indices: no memory"), "{error}");
    }

    #[test]
    fn a_mask_selects_and_its_elements_get_the_gradient() {
        let x = Tensor::<F64>::from_fn([2, 3], |i| (3 * i[0] + i[1]) as f64 - 2.0, &Device::cpu()).unwrap();
        let mask = x.gt(-1.5).unwrap();
        assert_eq!(x.masked_select(&mask).unwrap().to_vec().unwrap(), [-1.0, 0.0, 1.0, 2.0, 3.0]);
        assert_eq!(
            x.t().unwrap().masked_select(&mask.t().unwrap()).unwrap().to_vec().unwrap(),
            [1.0, -1.0, 2.0, 0.0, 3.0]
        );
        let row = x.select(0, 0).unwrap().lt(0.0).unwrap();
        assert_eq!(x.masked_select(&row).unwrap().to_vec().unwrap(), [-2.0, -1.0, 1.0, 2.0]);
        assert_eq!(x.masked_select(&x.gt(9.0).unwrap()).unwrap().dims(), [0]);
        assert!(x.masked_select(&Tensor::from_vec(vec![true; 2], [2], &Device::cpu()).unwrap()).is_err());
        for (name, mask) in [("whole", &mask), ("broadcast", &row)] {
            let worst = gradcheck(|t| t[0].masked_select(mask)?.sqr(), std::slice::from_ref(&x)).unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn a_mask_says_where_the_source_goes() {
        let x = Tensor::<F64>::from_fn([2, 3], |i| (3 * i[0] + i[1]) as f64, &Device::cpu()).unwrap();
        let source = (x.t().unwrap() + 10.0).unwrap();
        let mask = x.gt(2.5).unwrap();
        assert_eq!(x.masked_scatter(&mask, &source).unwrap().to_vec().unwrap(), [0.0, 1.0, 2.0, 10.0, 13.0, 11.0]);
        let column = x.narrow(1, 0, 1).unwrap().gt(1.0).unwrap();
        let row = x.select(0, 0).unwrap();
        let both = row.masked_scatter(&column, &source).unwrap();
        assert_eq!((both.dims(), both.to_vec().unwrap()), ([2, 3].as_slice(), vec![0.0, 1.0, 2.0, 10.0, 13.0, 11.0]));
        let halves = x.to::<F16>().unwrap().masked_scatter(&mask, &source.to::<F16>().unwrap()).unwrap();
        assert_eq!(halves.to::<F64>().unwrap().to_vec().unwrap()[3..], [10.0, 13.0, 11.0]);
        let whole = x.to::<I64>().unwrap().masked_scatter(&mask, &source.to::<I64>().unwrap()).unwrap();
        assert_eq!(whole.to_vec().unwrap(), [0, 1, 2, 10, 13, 11]);
        let error = x.masked_scatter(&mask, &source.narrow(0, 0, 1).unwrap()).unwrap_err().to_string();
        let rule = "masked_scatter: the source must be 3 elements or more, one for each place of the mask, found 2";
        assert_eq!(error, rule);
        for mask in [&mask, &column] {
            let f = |x: &[Tensor<F64>]| x[0].masked_scatter(mask, &x[1])?.sqr();
            let worst = gradcheck(f, &[x.clone(), source.clone()]).unwrap();
            assert!(worst.agrees(), "{worst:?}");
        }
    }
}
