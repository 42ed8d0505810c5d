//! Against images sampled pixel by pixel in F64, with the gradient as the derivative of that.

use super::*;
use crate::testing::{Random, Tensor, epsilon};
use crate::with_num_threads;

const ROWS: MemoryOrder = MemoryOrder::RowMajor;

fn ways() -> Vec<Sampling> {
    let modes = [GridMode::Bilinear, GridMode::Nearest, GridMode::Bicubic];
    let paddings = [GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection];
    let all = modes.into_iter().flat_map(|mode| paddings.map(|padding| (mode, padding)));
    all.flat_map(|(mode, padding)| [false, true].map(|align_corners| Sampling { mode, padding, align_corners }))
        .collect()
}

/// The number of a pixel, brought into a line.
fn inside(pixel: f64, size: usize, how: Sampling) -> f64 {
    let last = (size - 1) as f64;
    let (low, high) = if how.align_corners { (0.0, last) } else { (-0.5, last + 0.5) };
    match how.padding {
        GridPadding::Zeros => pixel,
        GridPadding::Reflection if low == high => 0.0,
        GridPadding::Reflection => {
            let mut pixel = pixel;
            while pixel < low || pixel > high {
                pixel = if pixel < low { 2.0 * low - pixel } else { 2.0 * high - pixel };
            }
            pixel.clamp(0.0, last)
        }
        GridPadding::Border => pixel.clamp(0.0, last),
    }
}

/// Pixels of a line with their shares.
fn line(place: f64, size: usize, how: Sampling) -> Vec<(f64, f64)> {
    let n = size as f64;
    let pixel = if how.align_corners { (place + 1.0) / 2.0 * (n - 1.0) } else { ((place + 1.0) * n - 1.0) / 2.0 };
    match how.mode {
        GridMode::Nearest => vec![(inside(pixel, size, how).round_ties_even(), 1.0)],
        GridMode::Bilinear => {
            let pixel = inside(pixel, size, how);
            vec![(pixel.floor(), 1.0 - pixel.fract().rem_euclid(1.0)), (pixel.floor() + 1.0, pixel - pixel.floor())]
        }
        GridMode::Bicubic => {
            let cubic = |x: f64| match x.abs() {
                x if x <= 1.0 => (1.25 * x - 2.25) * x * x + 1.0,
                x => ((-0.75 * x + 3.75) * x - 6.0) * x + 3.0,
            };
            let near = (-1..3).map(|step| pixel.floor() + f64::from(step));
            near.map(|tap| (inside(tap, size, how), cubic(pixel - tap))).collect()
        }
    }
}

/// Pixels of an image with their shares.
fn around(place: [f64; 2], [height, width]: [usize; 2], how: Sampling) -> Vec<([usize; 2], f64)> {
    let mut all = Vec::new();
    for (y, down) in line(place[1], height, how) {
        for (x, across) in line(place[0], width, how) {
            if (0.0..height as f64).contains(&y) && (0.0..width as f64).contains(&x) {
                all.push(([y as usize, x as usize], down * across));
            }
        }
    }
    all
}

/// Places up to a little more than an image away, none of which is near to where the derivative jumps.
fn places(random: &mut Random, shape: &[usize], size: [usize; 2], dtype: DType) -> Tensor {
    let mut values = vec![0.0; shape.iter().product()];
    for (i, value) in values.iter_mut().enumerate() {
        let pixels = size[1 - i % 2] as f64;
        loop {
            *value = 2.5 * random.number();
            let [one, other] = [(*value + 1.0) * pixels, (*value + 1.0) * (pixels - 1.0)].map(f64::fract).map(f64::abs);
            if [one, other].iter().all(|part| pixels == 1.0 || (part - 0.5).abs() < 0.45) {
                break;
            }
        }
    }
    Tensor::from_values(shape, dtype, &values)
}

struct Case {
    x: Tensor,
    grid: Tensor,
    grad: Tensor,
    how: Sampling,
}

impl Case {
    fn new(random: &mut Random, [n, c, h, w]: [usize; 4], [oh, ow]: [usize; 2], dtype: DType, how: Sampling) -> Self {
        let computed = if dtype == DType::F64 { dtype } else { DType::F32 };
        let grid = places(random, &[n, oh, ow, 2], [h, w], computed);
        Self { x: random.tensor(&[n, c, h, w], dtype), grid, grad: random.tensor(&[n, c, oh, ow], dtype), how }
    }

    /// The result and both gradients, rounded to `out`.
    fn all(&self, out: DType, order: MemoryOrder) -> [Storage; 3] {
        let (x, grid, grad) = (self.x.view(), self.grid.view(), self.grad.view());
        let input = [self.x.shape()[2], self.x.shape()[3]];
        [
            grid_sample(&x, &grid, self.how, (out, order)),
            grid_sample_grad(&grad, &grid, input, self.how, (out, order)),
            grid_sample_grad_grid(&x, &grid, &grad, self.how, out),
        ]
    }

    fn expected(&self) -> [Vec<f64>; 3] {
        let [_, channels, h, w] = *self.x.shape() else { panic!("images") };
        let y = Tensor::filled(self.grad.shape(), DType::F64, 0.0);
        let mut all = [vec![], vec![0.0; self.x.values().len()], vec![0.0; self.grid.values().len()]];
        for at in y.indices() {
            let [n, c, row, column] = <[usize; 4]>::try_from(at.clone()).expect("images");
            let place = [0, 1].map(|i| self.grid.at(&[n, row, column, i]));
            let mixed = |place| {
                around(place, [h, w], self.how)
                    .iter()
                    .map(|(p, share)| share * self.x.at(&[n, c, p[0], p[1]]))
                    .sum::<f64>()
            };
            all[0].push(mixed(place));
            for (p, share) in around(place, [h, w], self.how) {
                all[1][((n * channels + c) * h + p[0]) * w + p[1]] += share * self.grad.at(&at);
            }
            for i in [0, 1] {
                let moved = |by: f64| mixed(std::array::from_fn(|j| place[j] + if i == j { by } else { 0.0 }));
                let first = (n * y.shape()[2] + row) * y.shape()[3] + column;
                all[2][2 * first + i] += self.grad.at(&at) * (moved(1e-5) - moved(-1e-5)) / 2e-5;
            }
        }
        all
    }
}

#[test]
fn results_and_gradients_agree_with_their_definition() {
    let mut random = Random::new(41);
    for how in ways() {
        for (shape, size) in
            [([2, 3, 5, 4], [3, 7]), ([1, 37, 1, 6], [9, 9]), ([1, 16, 3, 3], [1, 1]), ([1, 70, 4, 5], [2, 2])]
        {
            for dtype in [DType::F64, DType::F32, DType::BF16] {
                let case = Case::new(&mut random, shape, size, dtype, how);
                let computed = if dtype == DType::F64 { dtype } else { DType::F32 };
                let (found, expected) = (case.all(computed, ROWS), case.expected());
                // Places are rounded by half an epsilon of up to 4 pixels of 8, shares by a few, and differences have errors of
                // 1e-9 over 2e-5; up to 16 pixels, 64 places and 70 channels are summed.
                let scale = 3e3 * epsilon(computed);
                for (i, bound) in [scale, scale, 70.0 * scale + 1e-3].into_iter().enumerate() {
                    let found = Tensor::contiguous(&[expected[i].len()], found[i].clone()).values();
                    for (at, (found, expected)) in found.iter().zip(&expected[i]).enumerate() {
                        let tolerance = bound * expected.abs().max(1.0);
                        let near = (found - expected).abs() <= tolerance;
                        assert!(near, "{how:?} {shape:?} {dtype:?} {i}, {at}: {found} is not {expected} ± {tolerance}");
                    }
                }
            }
        }
    }
}

#[test]
fn orders_views_and_threads_do_not_change_bits() {
    let mut random = Random::new(42);
    for how in ways() {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            let case = Case::new(&mut random, [3, 67, 9, 8], [10, 13], dtype, how);
            let expected = with_num_threads(1, || case.all(dtype, ROWS));
            assert_eq!(with_num_threads(2, || case.all(dtype, ROWS)), expected, "{how:?} {dtype:?}");
            let together = Case { x: case.x.channels_last(), grad: case.grad.channels_last(), ..case };
            let found = together.all(dtype, MemoryOrder::ChannelsLast);
            let images = [&together.grad, &together.x].map(Tensor::shape);
            for (i, shape) in images.into_iter().enumerate() {
                assert_eq!(
                    Tensor::row_major(shape, MemoryOrder::ChannelsLast, &found[i]),
                    expected[i],
                    "{how:?} {dtype:?}"
                );
            }
            assert_eq!(found[2], expected[2]);
        }
    }
    let how = Sampling::default();
    let case = Case::new(&mut random, [2, 5, 4, 4], [3, 3], DType::F32, how);
    let packed = |x: &Tensor| Tensor::from_values(x.shape(), DType::F32, &x.values());
    let every = |x: &Tensor| x.every(3, 2).transposed(2, 3);
    let case = Case { x: every(&case.x), grid: case.grid.transposed(1, 2), grad: case.grad.transposed(2, 3), how };
    let dense = Case { x: packed(&case.x), grid: packed(&case.grid), grad: packed(&case.grad), how };
    assert_eq!(case.all(DType::F32, ROWS), dense.all(DType::F32, ROWS));
    let one = Case { x: case.x.narrow(1, 0, 1).broadcast(&[2, 1, 2, 4]), grad: case.grad.narrow(1, 0, 1), ..case };
    let dense = Case { x: packed(&one.x), grid: packed(&one.grid), grad: packed(&one.grad), how };
    assert_eq!(one.all(DType::F32, ROWS), dense.all(DType::F32, ROWS));
}

/// What lies outside of an image takes no part, so that what is there does not matter; what no place touches has no gradient.
#[test]
fn places_far_away_and_values_that_are_no_numbers() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let grid = Tensor::from_values(&[1, 1, 4, 2], DType::F32, &[nan, nan, inf, 0.0, -1e30, 1e30, 1.0, 1.0]);
    let x = Tensor::from_values(&[1, 1, 2, 2], DType::F32, &[nan, 2.0, 3.0, inf]);
    let grad = Tensor::filled(&[1, 1, 1, 4], DType::F32, 1.0);
    let how = Sampling { align_corners: true, ..Sampling::default() };
    let found = Case { x, grid: grid.clone(), grad: grad.clone(), how }.all(DType::F32, ROWS);
    assert_eq!(format!("{:?}", found[0]), format!("{:?}", Storage::from(vec![f32::NAN, 0.0, 0.0, f32::INFINITY])));
    assert_eq!(found[1], Storage::from(vec![1.0_f32, 0.0, 0.0, 1.0]));
    let border = Sampling { padding: GridPadding::Border, ..Sampling::default() };
    let x = Tensor::from_values(&[1, 1, 2, 2], DType::F32, &[1.0, 2.0, 3.0, 4.0]);
    let found = Case { x, grid, grad, how: border }.all(DType::F32, ROWS);
    assert_eq!(found[0], Storage::from(vec![1.0_f32, 3.0, 3.0, 4.0]));
    assert_eq!(found[2], Storage::from(vec![0.0_f32, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0]));
}

#[test]
fn nothing_is_sampled_of_nothing() {
    let mut random = Random::new(43);
    for (shape, size) in [([0, 2, 3, 3], [2, 2]), ([2, 0, 3, 3], [2, 2]), ([2, 3, 3, 3], [0, 2])] {
        let case = Case::new(&mut random, shape, size, DType::F32, Sampling::default());
        for (found, like) in case.all(DType::F32, ROWS).into_iter().zip([&case.grad, &case.x, &case.grid]) {
            assert_eq!(found, Storage::zeros(DType::F32, like.values().len()));
        }
    }
}
