//! Printing tensors as nested lists; long dimensions show their first and last three entries.

use super::Tensor;
use crate::precision::Element;
use std::fmt;

const EDGE_ITEMS: usize = 3;
const SUMMARISE_ABOVE: usize = 1000;

impl<P: Element> fmt::Display for Tensor<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = self.to_vec().map_err(|_| fmt::Error)?;
        let summarise = data.len() > SUMMARISE_ABOVE;
        write_level(f, &data, self.dims(), summarise, 0)?;
        write!(f, " Tensor<{}>{:?}", P::DTYPE, self.dims())?;
        if self.device().is_cpu() { Ok(()) } else { write!(f, " on {}", self.device()) }
    }
}

impl<P: Element> fmt::Debug for Tensor<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn write_level<T: fmt::Debug>(
    f: &mut fmt::Formatter<'_>,
    data: &[T],
    dims: &[usize],
    summarise: bool,
    depth: usize,
) -> fmt::Result {
    let Some((&size, rest)) = dims.split_first() else {
        return match (data.first(), f.precision()) {
            (Some(value), Some(digits)) => write!(f, "{value:.digits$?}"),
            (Some(value), None) => write!(f, "{value:?}"),
            (None, _) => Ok(()),
        };
    };
    f.write_str("[")?;
    let step = data.len().checked_div(size).unwrap_or(0);
    let mut i = 0;
    while i < size {
        if i > 0 {
            f.write_str(",")?;
            if rest.is_empty() {
                f.write_str(" ")?;
            } else {
                write!(f, "\n{:width$}", "", width = depth + 1)?;
            }
        }
        if summarise && i == EDGE_ITEMS && size > 2 * EDGE_ITEMS {
            f.write_str("...")?;
            i = size - EDGE_ITEMS;
            continue;
        }
        write_level(f, &data[i * step..(i + 1) * step], rest, summarise, depth + 1)?;
        i += 1;
    }
    f.write_str("]")
}
