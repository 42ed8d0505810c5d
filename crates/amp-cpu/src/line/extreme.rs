//! Running extremes.

use super::sort::end_to_end;
use super::{Cut, Span, WORK, lines_of};
use crate::num::{Num, in_num};
use crate::output::Output;
use crate::simd::{Kernel, Level, Simd, dispatch};
use crate::split::for_chunks;
use crate::{DType, SliceMut, Storage, View, line, scratch};

/// Elements that are passed over together where none of them is a new extreme.
const BLOCK: usize = 16;

/// The largest (or least) float so far along `axis`, in the precision of `x`, and where it is, as I64: the later of equals, NaN once
/// it has come.
///
/// PyTorch: `cummax`, `cummin`.
pub fn running_extreme(max: bool, x: &View, axis: usize) -> (Storage, Storage) {
    let Cut { outer, len, inner } = Cut::new(&x.layout.shape, axis);
    if inner > 1 {
        let turned = |x: &View, last| <[Storage; 2]>::from(running_extreme(max, x, last));
        return end_to_end(x, axis, len, &turned).into();
    }
    let span = Span::row_major(x);
    let count = outer * len * inner;
    let (mut values, mut places) = (Storage::unwritten(x.logical, count), Storage::unwritten(DType::I64, count));
    let (output, lines) = (Output::new(&mut values), lines_of(WORK, len));
    in_num!(x.logical, A => {
        for_chunks(&mut places, lines * len, &|piece, places| {
            let SliceMut::I64(places) = places else { unreachable!("made as I64") };
            scratch::with(2 * len, |room: &mut [A]| {
                let (loaded, room) = room.split_at_mut(len);
                for (i, places) in places.chunks_mut(len).enumerate() {
                    let start = (piece * lines + i) * len;
                    let line = span.read(start, len, loaded);
                    // SAFETY: no other piece has this line.
                    let mut values = unsafe { output.part(start, len) };
                    line::store(&mut values, room, |values| dispatch(Running { max, line, values, places }));
                }
            });
        });
    });
    (values, places)
}

/// One line.
struct Running<'a, A> {
    max: bool,
    line: &'a [A],
    values: &'a mut [A],
    places: &'a mut [i64],
}

impl<A: Num> Kernel for Running<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { max, line, values, places } = self;
        let (mut best, mut place) = (if max { A::LEAST } else { A::GREATEST }, 0);
        let wins = |x: A, best: A| x.is_nan() | if max { x >= best } else { x <= best };
        let blocks = line.chunks(BLOCK).zip(values.chunks_mut(BLOCK)).zip(places.chunks_mut(BLOCK));
        for (number, ((block, values), places)) in blocks.enumerate() {
            if !block.iter().fold(false, |found, &x| found | wins(x, best)) {
                values.fill(best);
                places.fill(place);
                continue;
            }
            for (i, (&x, (value, at))) in block.iter().zip(values.iter_mut().zip(places)).enumerate() {
                if wins(x, best) {
                    (best, place) = (x, (number * BLOCK + i) as i64);
                }
                (*value, *at) = (best, place);
            }
        }
    }
}
