//! Einstein summation.

use super::Part;
use super::reduce::fold;
use crate::precision::{Element, Float, SamePrecision};
use crate::tensor::Tensor;
use crate::{Error, IntoShape, Result};
use amp_cpu::{MAX_RANK, Reduce};

impl<P: Float> Tensor<P> {
    /// The sum of products of two tensors that `equation` describes (`torch.einsum(equation, self, other)`); of one tensor, or
    /// of more than two, [`einsum_of`](Self::einsum_of).
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
        summed(equation, &[self, &Self::from_raw(other.raw.clone())])
    }

    /// The sum of products of all `tensors` that `equation` describes (`torch.einsum(equation, *tensors)`), written as for
    /// [`einsum`](Self::einsum): `"ij->ji"`, `"ii->"` of one tensor, `"bi,ij,bj->b"` of three.
    ///
    /// The tensors are multiplied from left to right, two at a time: put those first whose product is small.
    ///
    /// # Precision
    /// That of [`einsum`](Self::einsum); each of the products is rounded.
    ///
    /// # Errors
    /// [`Error::Argument`] when there are no tensors, or the equation does not fit them. Letters do not broadcast.
    #[track_caller]
    pub fn einsum_of(tensors: &[impl Part<P>], equation: &str) -> Result<Self> {
        let tensors: Vec<&Self> = tensors.iter().map(Part::tensor).collect();
        summed(equation, &tensors).map_err(|error| error.named("einsum_of"))
    }
}

/// A tensor and a letter for each of its dimensions.
struct Term<P: Float> {
    letters: Vec<char>,
    x: Tensor<P>,
}

#[track_caller]
fn summed<P: Float>(text: &str, tensors: &[&Tensor<P>]) -> Result<Tensor<P>> {
    let Equation { operands, result } = Equation::parse(text, tensors)?;
    agree(text, &operands, tensors)?;
    let mut terms = Vec::with_capacity(tensors.len());
    for (letters, x) in operands.into_iter().zip(tensors) {
        terms.push(Term { letters, x: (*x).clone() }.without_repeats()?);
    }
    let mut terms = terms.into_iter();
    let Some(mut product) = terms.next() else {
        return Err(Error::argument("einsum", "tensors", "one or more", "none"));
    };
    while let Some(next) = terms.next() {
        let wanted: Vec<&[char]> = terms.as_slice().iter().map(|term| &*term.letters).chain([&*result]).collect();
        product = product.times(next, |c| wanted.iter().any(|letters| letters.contains(&c)))?;
    }
    product.only(&result)
}

impl<P: Float> Term<P> {
    /// Each letter once: of those that occur again, the diagonal, which is the last dimension then.
    #[track_caller]
    fn without_repeats(mut self) -> Result<Self> {
        while let Some((first, again)) = repeated(&self.letters) {
            self.x = self.x.diagonal(0, first as isize, again as isize)?;
            self.letters.remove(again);
            let letter = self.letters.remove(first);
            self.letters.push(letter);
        }
        Ok(self)
    }

    /// The product, summed over letters that are not `kept`, as one of batches of matrices.
    #[track_caller]
    fn times(mut self, mut other: Self, kept: impl Fn(char) -> bool) -> Result<Self> {
        broadcast(&mut self, &mut other)?;
        let (left, right) = (&self.letters, &other.letters);
        let pick = |from: &[char], test: &dyn Fn(char) -> bool| from.iter().copied().filter(|&c| test(c)).collect();
        let batch: Vec<char> = pick(left, &|c| right.contains(&c) && kept(c));
        let inner: Vec<char> = pick(left, &|c| right.contains(&c) && !kept(c));
        let rows: Vec<char> = pick(left, &|c| !right.contains(&c) && kept(c));
        let columns: Vec<char> = pick(right, &|c| !left.contains(&c) && kept(c));
        let letters = [batch.as_slice(), &rows, &columns].concat();
        let sizes: Vec<usize> = letters.iter().map(|&c| self.size(c).or(other.size(c)).unwrap_or(1)).collect();
        let shape = sizes.into_shape("einsum")?;
        let product = self.matrices([&batch, &rows, &inner])?.matmul(&other.matrices([&batch, &inner, &columns])?)?;
        Ok(Self { letters, x: product.reshape(shape)? })
    }

    /// Three dimensions, each of several letters; the others are summed over.
    #[track_caller]
    fn matrices(&self, groups: [&[char]; 3]) -> Result<Tensor<P>> {
        let shape = groups.map(|group| group.iter().filter_map(|&c| self.size(c)).product::<usize>());
        self.only(&groups.concat())?.reshape(shape)
    }

    /// The dimensions of `wanted`, in this order; the others are summed over.
    #[track_caller]
    fn only(&self, wanted: &[char]) -> Result<Tensor<P>> {
        let (left, gone): (Vec<_>, Vec<_>) = self.letters.iter().enumerate().partition(|(_, c)| wanted.contains(c));
        let left: Vec<char> = left.into_iter().map(|(_, &c)| c).collect();
        let gone: Vec<usize> = gone.into_iter().map(|(i, _)| i).collect();
        let summed = match gone.is_empty() {
            true => self.x.clone(),
            false => Tensor::from_raw(fold("einsum", Reduce::Sum, &self.x.raw, &gone, 1.0)?).drop_axes(&gone, false)?,
        };
        let order = wanted.iter().filter_map(|c| left.iter().position(|l| l == c)).map(|i| i as isize);
        summed.permute(order.collect::<Vec<_>>())
    }

    fn size(&self, letter: char) -> Option<usize> {
        Some(self.x.dims()[self.letters.iter().position(|&c| c == letter)?])
    }
}

/// Drops dimensions of `...` that are 1 where those of the other tensor are not.
#[track_caller]
fn broadcast<P: Float>(a: &mut Term<P>, b: &mut Term<P>) -> Result<()> {
    for letter in (0..MAX_RANK).map(unnamed) {
        let thin = match (a.size(letter), b.size(letter)) {
            (Some(1), Some(size)) if size != 1 => &mut *a,
            (Some(size), Some(1)) if size != 1 => &mut *b,
            _ => continue,
        };
        let axis = thin.letters.iter().position(|&c| c == letter).unwrap_or_default();
        thin.letters.remove(axis);
        thin.x = thin.x.squeeze(axis as isize)?;
    }
    Ok(())
}

/// The letters of the operands and of the result, where `...` is one for each dimension it stands for.
struct Equation {
    operands: Vec<Vec<char>>,
    result: Vec<char>,
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
    fn parse<P: Float>(text: &str, tensors: &[&Tensor<P>]) -> Result<Self> {
        let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (parts, result) = plain.split_once("->").map_or((plain.as_str(), None), |(a, b)| (a, Some(b)));
        if parts.split(',').count() != tensors.len() {
            return Err(refused(format!("as many operands as there are tensors, {}", tensors.len()), text));
        }
        let operands = parts.split(',').zip(tensors).map(|(part, x)| operand(text, part, x.rank()));
        let (operands, covered): (Vec<_>, Vec<_>) = operands.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let result = match result {
            Some(result) => letters(text, result, covered.into_iter().max().unwrap_or(0))?,
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

/// There is one size for each letter; dimensions of `...` may be 1 instead.
fn agree<P: Float>(text: &str, operands: &[Vec<char>], tensors: &[&Tensor<P>]) -> Result<()> {
    let mut seen: Vec<(char, usize, &[usize])> = Vec::new();
    for (letters, x) in operands.iter().zip(tensors) {
        for (&c, &size) in letters.iter().zip(x.dims()).filter(|(c, size)| c.is_ascii() || **size != 1) {
            match seen.iter().find(|(other, ..)| *other == c) {
                Some((_, first, dims)) if *first != size => {
                    let name = if c.is_ascii() { c.to_string() } else { "...".into() };
                    return Err(refused(format!("one size for `{name}` in {dims:?} and {:?}", x.dims()), text));
                }
                Some(_) => {}
                None => seen.push((c, size, x.dims())),
            }
        }
    }
    Ok(())
}

/// The dimensions of `...`, then the letters that occur once, in alphabetical order.
fn implied(operands: &[Vec<char>]) -> Vec<char> {
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
    fn lists_of_tensors_are_products_by_hand() -> Result<()> {
        manual_seed(43);
        let (x, w, y) = (random(&[4, 3]), random(&[3, 5]), random(&[4, 5]));
        let (m, q, thin) = (random(&[3, 3]), random(&[2, 3, 4]), random(&[1, 4]));
        let diagonal = m.diagonal(0, 0, 1)?;
        let of = |tensors: &[&Tensor<F64>], equation| Tensor::einsum_of(tensors, equation);
        let bilinear = x.matmul(&w)?.mul(&y)?;
        let cases = [
            (of(&[&x], "ij->ji")?, x.t()?),
            (of(&[&x], "ba")?, x.t()?),
            (of(&[&x], "ij->")?, x.sum_all()?),
            (of(&[&x], "ij->j")?, x.sum(0, false)?),
            (of(&[&m], "ii->i")?, diagonal.clone()),
            (of(&[&m], "ii")?, m.trace()?),
            (of(&[&q], "...i->i...")?, q.permute([2, 0, 1])?),
            (of(&[&x, &w], "ij,jk->ki")?, x.matmul(&w)?.t()?),
            (of(&[&x, &w, &y], "bi,ij,bj->b")?, bilinear.sum(1, false)?),
            (of(&[&x, &w, &y], "bi,ij,bj")?, bilinear.sum_all()?),
            (of(&[&x, &m, &w, &y], "bi,ij,jk,bk->kb")?, x.matmul(&m)?.matmul(&w)?.mul(&y)?.t()?),
            (of(&[&x, &m, &w], "bi,ii,ik->bk")?, x.mul(&diagonal)?.matmul(&w)?),
            (of(&[&thin, &q, &thin], "...i,...i,...i->...i")?, q.mul(&thin.sqr()?)?),
            (of(&[&thin, &thin, &q], "...i,...i,...i->...")?, q.mul(&thin.sqr()?)?.sum(2, false)?),
        ];
        for (i, (found, expected)) in cases.iter().enumerate() {
            assert_eq!(found.dims(), expected.dims(), "case {i}");
            let diff = found.sub(expected)?.abs()?.max_all()?.item()?;
            assert!(diff <= 1e-12, "case {i}: {diff}");
        }
        assert!(Tensor::<F64>::einsum_of(&[&x; 0], "").is_err());
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
        let (w, c) = (random(&[3, 3]), random(&[2, 3]));
        for (equation, count) in [("bij->jb", 1), ("bij,cki->ck", 2), ("bij,cki,jj->bc", 3), ("bij,cki,jj,bi->c", 4)] {
            let inputs = [a.clone(), random(&[2, 2, 3]), random(&[2, 2]), c.clone()];
            let check = gradcheck(|t| Tensor::einsum_of(t, equation)?.sqr(), &inputs[..count]).unwrap();
            assert!(check.agrees(), "{equation}: {check:?}");
        }
        let check = gradcheck(|t| Tensor::einsum_of(t, "ii->i")?.sqr(), &[w]).unwrap();
        assert!(check.agrees(), "{check:?}");
    }

    #[test]
    fn equations_that_fit_nothing_are_errors() {
        let x = random(&[2, 3]);
        for (equation, says) in [
            ("ij", "as many operands as there are tensors, 2"),
            ("ij,jk,kl->il", "as many operands as there are tensors, 2"),
            ("ii,jk->i", "one size for `i` in [2, 3] and [2, 3]"),
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
