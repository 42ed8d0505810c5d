//! Einstein summation.

use super::reduce::fold;
use crate::precision::{Element, Float, SamePrecision};
use crate::shape::IntoShape;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{MAX_RANK, Reduce};

impl<P: Float> Tensor<P> {
    /// The sum of products of two tensors that `equation` describes (`torch.einsum(equation, self, other)`).
    ///
    /// `"bij,bjk->bik"` names the dimensions of both tensors and of the result. Letters of both tensors that the result
    /// lacks are summed over, as one matrix product; those of one tensor only are summed before it. `...` stands for the
    /// dimensions that a tensor has beside its letters, and those of both tensors broadcast: `"...ij,jk->...ik"`. A letter
    /// that a tensor has twice means its diagonal. Without `->` the result has the dimensions of `...` and then the letters
    /// that occur once, in alphabetical order.
    ///
    /// # Precision
    /// That of [`matmul`](Self::matmul). Letters of one tensor only are summed in F32 (F64 for F64) and the sums rounded to its
    /// precision, in which the product takes them.
    ///
    /// # Errors
    /// [`Error::Argument`] when the equation is not one of two operands or does not fit the tensors. Letters do not broadcast.
    #[track_caller]
    pub fn einsum<Q: Element>(&self, equation: &str, other: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        let other = Self::from_raw(other.raw.clone());
        let Equation { mut operands, result } = Equation::parse(equation, [self.rank(), other.rank()])?;
        let [left, right] = &mut operands;
        let mut pair = [self.diagonals(left)?, other.diagonals(right)?];
        broadcast(&mut operands, &mut pair)?;
        let [x, y] = &pair;
        let plan = Plan::new(equation, &operands, &result, [x.dims(), y.dims()])?;
        let shape = plan.shape.into_shape("einsum")?;
        let [left, right] = &plan.operands;
        let product = left.arranged(x)?.matmul(&right.arranged(y)?)?;
        product.reshape(shape)?.permute(&plan.order)
    }

    /// Each of `letters` once: of those that occur again, the diagonal, which is the last dimension then.
    #[track_caller]
    fn diagonals(&self, letters: &mut Vec<char>) -> Result<Self> {
        let mut x = self.clone();
        while let Some((first, again)) = repeated(letters) {
            x = x.diagonal(0, first as isize, again as isize)?;
            letters.remove(again);
            let letter = letters.remove(first);
            letters.push(letter);
        }
        Ok(x)
    }
}

/// Drops dimensions of `...` that are 1 where those of the other tensor are not.
fn broadcast<P: Float>(letters: &mut [Vec<char>; 2], pair: &mut [Tensor<P>; 2]) -> Result<()> {
    for places in 0..MAX_RANK {
        let [Some(a), Some(b)] = letters.each_ref().map(|of| of.iter().position(|&c| c == unnamed(places))) else {
            continue;
        };
        let sizes = [pair[0].dims()[a], pair[1].dims()[b]];
        if let Some(i) = sizes.iter().position(|&size| size == 1).filter(|_| sizes[0] != sizes[1]) {
            let axis = [a, b][i];
            letters[i].remove(axis);
            pair[i] = pair[i].squeeze(axis as isize)?;
        }
    }
    Ok(())
}

/// The letters of both operands and of the result, where `...` is one for each dimension it stands for.
struct Equation {
    operands: [Vec<char>; 2],
    result: Vec<char>,
}

/// An operand on its way to a batch of matrices.
struct Operand {
    /// Axes that are summed first.
    sums: Vec<usize>,
    order: Vec<isize>,
    shape: [usize; 3],
}

struct Plan {
    operands: [Operand; 2],
    /// The product with its axes apart, and their order in the result.
    shape: Vec<usize>,
    order: Vec<isize>,
}

fn refused(expected: impl Into<String>, equation: &str) -> Error {
    Error::argument("einsum", "equation", expected, equation)
}

/// What stands for the dimension of `...` that `places` more follow: no character of an equation.
fn unnamed(places: usize) -> char {
    char::from(0x80 + places as u8)
}

/// The letters of `part`, where `...` stands for `covered` dimensions.
fn letters(text: &str, part: &str, covered: usize) -> Result<Vec<char>> {
    let (before, covered, after) = match part.split_once("...") {
        Some((before, after)) => (before, covered, after),
        None => (part, 0, ""),
    };
    if !before.chars().chain(after.chars()).all(|c| c.is_ascii_alphabetic()) {
        return Err(refused("letters, and `...` once at most, for each tensor", text));
    }
    Ok(before.chars().chain((0..covered).rev().map(unnamed)).chain(after.chars()).collect())
}

/// The letters of an operand of `rank` dimensions, and how many of them `...` stands for.
fn operand(text: &str, part: &str, rank: usize) -> Result<(Vec<char>, usize)> {
    let named = part.chars().filter(|&c| c != '.').count();
    let covered = rank.checked_sub(named).filter(|&covered| covered == 0 || part.contains("..."));
    match covered {
        Some(covered) => Ok((letters(text, part, covered)?, covered)),
        None => Err(refused(format!("{rank} letters for a tensor of {rank} dimensions, not `{part}`"), text)),
    }
}

impl Equation {
    fn parse(text: &str, ranks: [usize; 2]) -> Result<Self> {
        let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (operands, result) = plain.split_once("->").map_or((plain.as_str(), None), |(a, b)| (a, Some(b)));
        let pair = operands.split_once(',').filter(|(_, right)| !right.contains(','));
        let Some((left, right)) = pair else { return Err(refused("two operands", text)) };
        let ((left, first), (right, second)) = (operand(text, left, ranks[0])?, operand(text, right, ranks[1])?);
        let operands = [left, right];
        let result = match result {
            Some(result) => letters(text, result, first.max(second))?,
            None => implied(&operands),
        };
        if repeated(&result).is_some() {
            return Err(refused("distinct letters in the result", text));
        }
        if result.iter().any(|c| !operands.iter().any(|operand| operand.contains(c))) {
            return Err(refused("letters of the operands in the result", text));
        }
        Ok(Self { operands, result })
    }
}

impl Plan {
    /// For operands of distinct letters.
    fn new(text: &str, operands: &[Vec<char>; 2], result: &[char], dims: [&[usize]; 2]) -> Result<Self> {
        let [left, right] = operands;
        let sizes =
            |c: char| operands.iter().zip(dims).filter_map(move |(o, d)| Some(d[o.iter().position(|&l| l == c)?]));
        let size = |c: char| sizes(c).next().unwrap_or(1);
        if let Some(c) = left.iter().find(|&&c| sizes(c).any(|other| other != size(c))) {
            let name = if c.is_ascii() { c.to_string() } else { "...".into() };
            return Err(refused(format!("one size for `{name}` in {:?} and {:?}", dims[0], dims[1]), text));
        }
        let kept = |c: &char| result.contains(c);
        let pick = |from: &[char], test: &dyn Fn(&char) -> bool| from.iter().copied().filter(test).collect::<Vec<_>>();
        let batch = pick(left, &|c| right.contains(c) && kept(c));
        let inner = pick(left, &|c| right.contains(c) && !kept(c));
        let rows = pick(left, &|c| !right.contains(c) && kept(c));
        let columns = pick(right, &|c| !left.contains(c) && kept(c));
        let product = [batch.as_slice(), &rows, &columns].concat();
        Ok(Self {
            operands: [
                Operand::new(left, [&batch, &rows, &inner], size),
                Operand::new(right, [&batch, &inner, &columns], size),
            ],
            shape: product.iter().map(|&c| size(c)).collect(),
            order: positions(result, &product),
        })
    }
}

impl Operand {
    fn new(letters: &[char], groups: [&[char]; 3], size: impl Fn(char) -> usize) -> Self {
        let wanted = groups.concat();
        let (left, gone): (Vec<_>, Vec<_>) = letters.iter().enumerate().partition(|(_, c)| wanted.contains(c));
        let left: Vec<char> = left.into_iter().map(|(_, &c)| c).collect();
        Self {
            sums: gone.into_iter().map(|(i, _)| i).collect(),
            order: positions(&wanted, &left),
            shape: groups.map(|group| group.iter().map(|&c| size(c)).product()),
        }
    }

    #[track_caller]
    fn arranged<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        let summed = match self.sums.is_empty() {
            true => x.clone(),
            false => {
                Tensor::from_raw(fold("einsum", Reduce::Sum, &x.raw, &self.sums, 1.0)?).drop_axes(&self.sums, false)?
            }
        };
        summed.permute(&self.order)?.reshape(self.shape)
    }
}

/// The dimensions of `...`, then the letters that occur once, in alphabetical order.
fn implied(operands: &[Vec<char>; 2]) -> Vec<char> {
    let all = operands.concat();
    let mut dots: Vec<char> = all.iter().copied().filter(|c| !c.is_ascii()).collect();
    dots.sort_unstable_by(|a, b| b.cmp(a));
    dots.dedup();
    let mut once: Vec<char> = all.iter().copied().filter(|c| c.is_ascii()).collect();
    once.retain(|c| all.iter().filter(|other| *other == c).count() == 1);
    once.sort_unstable();
    [dots, once].concat()
}

/// The first letter that occurs again: both places.
fn repeated(letters: &[char]) -> Option<(usize, usize)> {
    (0..letters.len()).find_map(|i| Some((i, i + 1 + letters[i + 1..].iter().position(|c| *c == letters[i])?)))
}

/// Where each of `letters` stands in `of`.
fn positions(letters: &[char], of: &[char]) -> Vec<isize> {
    letters.iter().filter_map(|c| of.iter().position(|o| o == c)).map(|i| i as isize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autograd::gradcheck;
    use crate::precision::F64;
    use crate::{Device, manual_seed};

    fn random(shape: &[usize]) -> Tensor<F64> {
        Tensor::<crate::F32>::randn(shape, &Device::cpu()).unwrap().to().unwrap()
    }

    #[test]
    fn equations_are_products_by_hand() -> Result<()> {
        manual_seed(41);
        let (q, k) = (random(&[2, 3, 4, 5]), random(&[2, 6, 4, 5]));
        let scores = q.transpose(1, 2)?.matmul(&k.permute([0, 2, 3, 1])?)?;
        let (x, w, v) = (random(&[4, 3]), random(&[3, 5]), random(&[3]));
        let (u, m, a, b) = (random(&[5, 6]), random(&[3, 3]), random(&[2, 1, 4, 5]), random(&[3, 5, 6]));
        let cases = [
            (q.einsum("bqhd,bkhd->bhqk", &k)?, scores.clone()),
            (q.einsum(" bqhd , bkhd -> hbkq ", &k)?, scores.permute([1, 0, 3, 2])?),
            (x.einsum("ij,jk", &w)?, x.matmul(&w)?),
            (x.einsum("ij,jk->ki", &w)?, x.matmul(&w)?.t()?),
            (x.einsum("ij,j->i", &v)?, x.matmul(&v)?),
            (v.einsum("i,i->", &v)?, v.matmul(&v)?),
            (v.einsum("i,j->ij", &v)?, v.unsqueeze(1)?.mul(&v)?),
            (x.einsum("ij,j->ij", &v)?, x.mul(&v)?),
            (x.einsum("ij,jk->j", &w)?, x.sum(0, false)?.mul(&w.sum(1, false)?)?),
            (x.einsum("ij,kl->", &w)?, x.sum_all()?.mul(&w.sum_all()?)?),
            (q.einsum("...d,de->...e", &u)?, q.matmul(&u)?),
            (a.einsum("...ij,...jk->...ik", &b)?, a.matmul(&b)?),
            (a.einsum("...ij,...jk->ik...", &b)?, a.matmul(&b)?.permute([2, 3, 0, 1])?),
            (b.einsum("...jk,...ij", &a)?, a.matmul(&b)?),
            (b.einsum("...jk,...ij->ik", &a)?, a.matmul(&b)?.sum([0, 1], false)?),
            (q.einsum("...,...->...", &q)?, q.mul(&q)?),
            (m.einsum("ii,ij->j", &w)?, m.diagonal(0, 0, 1)?.matmul(&w)?),
            (m.einsum("ii,jj->ij", &m)?, m.diagonal(0, 0, 1)?.unsqueeze(1)?.mul(&m.diagonal(0, 0, 1)?)?),
            (m.einsum("ii,jk", &w)?, w.mul(&m.diagonal(0, 0, 1)?.sum_all()?)?),
            (
                Tensor::<F64>::zeros([0, 3], &Device::cpu())?.einsum("ij,jk->ik", &w)?,
                Tensor::zeros([0, 5], &Device::cpu())?,
            ),
            (
                Tensor::<F64>::zeros([2, 0], &Device::cpu())?
                    .einsum("ij,jk->ik", &Tensor::<F64>::zeros([0, 5], &Device::cpu())?)?,
                Tensor::zeros([2, 5], &Device::cpu())?,
            ),
        ];
        for (i, (found, expected)) in cases.iter().enumerate() {
            assert_eq!(found.dims(), expected.dims(), "case {i}");
            for (f, e) in found.to_vec()?.into_iter().zip(expected.to_vec()?) {
                let diff = (f - e).abs();
                assert!(diff <= 1e-12 * (1.0 + e.abs()), "case {i}: {f} is not {e}");
            }
        }
        Ok(())
    }

    #[test]
    fn gradients_agree_with_differences() {
        manual_seed(42);
        let (a, b) = (random(&[2, 3, 2]), random(&[2, 4, 3]));
        for equation in ["bij,bki->bjk", "bij,bki->kb", "bij,cki->jc", "...ij,...ki->...k", "bib,cki->c"] {
            let check = gradcheck(|t| t[0].einsum(equation, &t[1])?.sqr(), &[a.clone(), b.clone()]).unwrap();
            assert!(check.agrees(), "{equation}: {check:?}");
        }
    }

    #[test]
    fn equations_that_fit_nothing_are_errors() {
        let x = random(&[2, 3]);
        for (equation, says) in [
            ("ij", "two operands"),
            ("ij,jk,kl->il", "two operands"),
            ("i1,1j->ij", "letters, and `...` once"),
            ("i..,ij->j", "2 letters for a tensor of 2 dimensions, not `i..`"),
            ("ij,ij->i..", "letters, and `...` once"),
            ("......ij,ij->j", "letters, and `...` once"),
            ("ij,jk->ii", "distinct letters in the result"),
            ("ij,jk->iz", "letters of the operands"),
            ("ijk,kl->il", "2 letters for a tensor of 2 dimensions, not `ijk`"),
            ("i,kl->il", "2 letters for a tensor of 2 dimensions, not `i`"),
            ("...ijk,kl->il", "2 letters for a tensor of 2 dimensions, not `...ijk`"),
            ("ij,jk->ik", "one size for `j` in [2, 3] and [2, 3]"),
            ("...,...j->...", "one size for `...` in [2, 3] and [2, 3]"),
        ] {
            let error = x.einsum(equation, &x).unwrap_err().to_string();
            assert!(error.starts_with("einsum: equation") && error.contains(says), "{equation}: {error}");
        }
    }
}
