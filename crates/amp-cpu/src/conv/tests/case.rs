//! A convolution with its operands, and the reference: one loop over all (output pixel, kernel element) pairs in F64.

use super::*;

pub(in crate::conv) struct Case {
    pub x: Tensor,
    pub w: Tensor,
    pub grad: Tensor,
    pub spec: Conv2d,
}

impl Case {
    pub(in crate::conv) fn new(random: &mut Random, x: [usize; 4], w: [usize; 4], spec: Conv2d, dtype: DType) -> Self {
        let size = spec.output_size([x[2], x[3]], [w[2], w[3]]).expect("the kernel fits");
        let grad = random.tensor(&[x[0], w[0], size[0], size[1]], dtype);
        Self { x: random.tensor(&x, dtype), w: random.tensor(&w, dtype), grad, spec }
    }

    /// Calls `visit` with the indices of output, input and kernel of every product term.
    fn terms(&self, mut visit: impl FnMut([usize; 4], [usize; 4], [usize; 4])) {
        let (spec, [_, channels, height, width]) = (self.spec, sizes(&self.x.view()));
        let [outputs, _, kh, kw] = sizes(&self.w.view());
        for y in self.grad.indices() {
            let group = y[1] / (outputs / spec.groups);
            for c in 0..channels / spec.groups {
                for (ky, kx) in (0..kh).flat_map(|ky| (0..kw).map(move |kx| (ky, kx))) {
                    let row = (y[2] * spec.stride[0] + ky * spec.dilation[0]).wrapping_sub(spec.padding[0]);
                    let column = (y[3] * spec.stride[1] + kx * spec.dilation[1]).wrapping_sub(spec.padding[1]);
                    if row < height && column < width {
                        let input = [y[0], group * (channels / spec.groups) + c, row, column];
                        visit([y[0], y[1], y[2], y[3]], input, [y[1], c, ky, kx]);
                    }
                }
            }
        }
    }

    pub(in crate::conv) fn check(&self, out: DType) {
        let (y, dx, dw) = self.computed((out, RowMajor));
        let turned = Self { x: self.x.channels_last(), grad: self.grad.channels_last(), w: self.w.clone(), ..*self };
        let (turned_y, turned_dx, turned_dw) = turned.computed((out, ChannelsLast));
        assert_eq!(y, Tensor::row_major(self.grad.shape(), ChannelsLast, &turned_y));
        assert_eq!(dx, Tensor::row_major(self.x.shape(), ChannelsLast, &turned_dx));
        assert_eq!(dw, turned_dw);
        let mixed = conv2d_grad_weight(&turned.grad.view(), &self.x.view(), sizes(&self.w.view()), &self.spec);
        assert_eq!(dw, mixed);
        self.compare(y, dx, dw);
    }

    /// Result and gradients.
    pub(super) fn computed(&self, out: (DType, MemoryOrder)) -> (Storage, Storage, Storage) {
        let (x, w, grad, spec) = (self.x.view(), self.w.view(), self.grad.view(), &self.spec);
        let y = conv2d(&x, &w, None, spec, out);
        let dx = conv_transpose2d(&grad, &w, None, sizes(&x), spec, out);
        (y, dx, conv2d_grad_weight(&grad, &x, sizes(&w), spec))
    }

    /// As [`Self::check`] with AMX, emulated where the machine has none.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    pub(super) fn check_on_amx(&self) {
        let (x, w, grad, spec) = (self.x.view(), self.w.view(), self.grad.view(), &self.spec);
        // What rounds on the way is an instruction of this level.
        if Level::best() >= Level::Avx512Bf16 {
            let bias = Random::new(23).tensor(&[sizes(&w)[0]], DType::F32);
            for bias in [None, Some(bias.view())] {
                let of = |order| forward(&x, &w, bias.as_ref(), spec, (DType::BF16, order), ON_AMX);
                let shape = self.grad.shape();
                assert_eq!(of(RowMajor), Tensor::row_major(shape, ChannelsLast, &of(ChannelsLast)), "{shape:?}");
            }
        }
        self.compare_images(forward(&x, &w, None, spec, (DType::F32, RowMajor), ON_AMX));
        let dx = transposed(&grad, &w, None, sizes(&x), spec, (DType::F32, RowMajor), ON_AMX);
        self.compare_gradients_of_images(dx);
        self.check_kernels_packed(amx());
    }

    /// The pixels of the gradient, and the taps of the kernel.
    pub(in super::super) fn lattice(&self) -> Lattice {
        let ([.., height, width], [.., kh, kw]) = (sizes(&self.grad.view()), sizes(&self.w.view()));
        Lattice::forward(&self.spec, [height, width], [kh, kw])
    }

    /// Checks the gradient of kernels with panels for the tiles of a matrix product.
    pub(super) fn check_kernels_packed(&self, kernel: tile::Kernel<bf16>) {
        let (w, lattice) = (sizes(&self.w.view()), self.lattice());
        let [grad, x] = [&self.grad, &self.x].map(Tensor::channels_last);
        let cut_small = weight::Limits { band: 1 << 8, whole: 1 << 9, partial: 1 << 11 };
        for limits in [weight::LIMITS, cut_small] {
            let of = |grad: &Tensor, x: &Tensor, accumulate| {
                let mut into = Storage::zeros(DType::F32, w.iter().product());
                let target = weight::Target { shape: w, into: &mut into, accumulate };
                weight::compute_with(kernel, limits, &grad.view(), &x.view(), &lattice, target);
                into
            };
            let dw = of(&self.grad, &self.x, true);
            assert_eq!(dw, of(&grad, &x, true));
            assert_eq!(dw, of(&grad, &self.x, false));
            self.compare_kernels(dw);
        }
    }

    pub(in crate::conv) fn compare(&self, y: Storage, dx: Storage, dw: Storage) {
        self.compare_images(y);
        self.compare_gradients_of_images(dx);
        self.compare_kernels(dw);
    }

    /// Compares what is added to images, in the order of pixels.
    pub(in crate::conv) fn compare_onto(&self, earlier: &Tensor, add: impl Fn(&mut Storage) -> bool) {
        let mut into = earlier.channels_last().storage;
        assert!(add(&mut into), "tiles pay for {:?}", self.x.shape());
        let mut sums = Sums::new(self.x.shape(), self, |y, x, w| (x, self.grad.at(&y) * self.w.at(&w)));
        for ((sum, magnitude, terms), value) in sums.sums.iter_mut().zip(earlier.values()) {
            (*sum, *magnitude, *terms) = (*sum + value, *magnitude + value.abs(), *terms + 1);
        }
        sums.compare(Tensor::row_major(self.x.shape(), ChannelsLast, &into), self.sum());
    }

    pub(in crate::conv) fn compare_images(&self, y: Storage) {
        Sums::new(self.grad.shape(), self, |y, x, w| (y, self.x.at(&x) * self.w.at(&w))).compare(y, self.sum());
    }

    pub(super) fn compare_gradients_of_images(&self, dx: Storage) {
        Sums::new(self.x.shape(), self, |y, x, w| (x, self.grad.at(&y) * self.w.at(&w))).compare(dx, self.sum());
    }

    pub(in crate::conv) fn compare_kernels(&self, dw: Storage) {
        Sums::new(self.w.shape(), self, |y, x, w| (w, self.grad.at(&y) * self.x.at(&x))).compare(dw, self.sum());
    }

    /// What products are summed in.
    pub(in crate::conv) fn sum(&self) -> DType {
        if self.x.logical() == DType::F64 { DType::F64 } else { DType::F32 }
    }
}

/// A reference result: sums, sums of absolute values, numbers of terms.
struct Sums {
    shape: Vec<usize>,
    sums: Vec<(f64, f64, usize)>,
}

impl Sums {
    pub(super) fn new(
        shape: &[usize],
        case: &Case,
        term: impl Fn([usize; 4], [usize; 4], [usize; 4]) -> ([usize; 4], f64),
    ) -> Self {
        let mut sums = vec![(0.0, 0.0, 0); shape.iter().product()];
        case.terms(|y, x, w| {
            let (at, value) = term(y, x, w);
            let at = ((at[0] * shape[1] + at[1]) * shape[2] + at[2]) * shape[3] + at[3];
            sums[at] = (sums[at].0 + value, sums[at].1 + value.abs(), sums[at].2 + 1);
        });
        Self { shape: shape.to_vec(), sums }
    }

    pub(super) fn compare(&self, got: Storage, accumulator: DType) {
        let got = Tensor::contiguous(&self.shape, got);
        // Half the distance of F16's subnormals.
        let least = if got.logical() == DType::F16 { 2.0_f64.powi(-25) } else { 0.0 };
        for (index, &(sum, magnitude, terms)) in got.indices().iter().zip(&self.sums) {
            let tolerance = (terms + 1) as f64 * epsilon(accumulator) * magnitude + epsilon(got.logical()) * sum.abs();
            if !sum.is_finite() {
                let same = got.at(index) == sum || got.at(index).is_nan() && sum.is_nan();
                assert!(same, "at {index:?}: {} instead of {sum}", got.at(index));
                continue;
            }
            let diff = (got.at(index) - sum).abs();
            assert!(diff <= tolerance + least, "at {index:?}: {} instead of {sum}, off by {diff}", got.at(index));
        }
    }
}
