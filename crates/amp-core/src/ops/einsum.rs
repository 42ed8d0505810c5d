//! Einstein summation.

use super::reduce::fold;
use crate::precision::{Element, Float, SamePrecision};
use crate::shape::IntoShape;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::Reduce;

impl<P: Float> Tensor<P> {
    /// The sum of products of two tensors that `equation` describes (`torch.einsum(equation, self, other)`).
    ///
    /// `"bij,bjk->bik"` names the dimensions of both tensors and of the result. Letters of both tensors that the result
    /// lacks are summed over, as one matrix product; those of one tensor only are summed before it. Without `->` the result
    /// has the letters that occur once, in alphabetical order.
    ///
    /// # Precision
    /// That of [`matmul`](Self::matmul). Letters of one tensor only are summed in F32 (F64 for F64) and the sums rounded to its
    /// precision, in which the product takes them.
    ///
    /// # Errors
    /// [`Error::Argument`] when the equation is not one of two operands with distinct letters each, or does not fit the
    /// tensors. Letters do not broadcast.
    #[track_caller]
    pub fn einsum<Q: Element>(&self, equation: &str, other: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        let other = &Self::from_raw(other.raw.clone());
        let plan = Equation::parse(equation)?.plan(equation, [self.dims(), other.dims()])?;
        let shape = plan.shape.into_shape("einsum")?;
        let [left, right] = &plan.operands;
        let product = left.arranged(self)?.matmul(&right.arranged(other)?)?;
        product.reshape(shape)?.permute(&plan.order)
    }
}

/// The letters of both operands and of the result.
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

impl Equation {
    fn parse(text: &str) -> Result<Self> {
        let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (operands, result) = plain.split_once("->").map_or((plain.as_str(), None), |(a, b)| (a, Some(b)));
        let pair = operands.split_once(',').filter(|(_, right)| !right.contains(','));
        let Some((left, right)) = pair else { return Err(refused("two operands", text)) };
        let letters = |part: &str| -> Result<Vec<char>> {
            let letters: Vec<char> = part.chars().collect();
            let distinct =
                letters.iter().enumerate().all(|(i, c)| c.is_ascii_alphabetic() && !letters[..i].contains(c));
            if distinct { Ok(letters) } else { Err(refused("distinct letters in each tensor", text)) }
        };
        let operands = [letters(left)?, letters(right)?];
        let result = match result {
            Some(result) => letters(result)?,
            None => implied(&operands),
        };
        if result.iter().any(|c| !operands.iter().any(|operand| operand.contains(c))) {
            return Err(refused("letters of the operands in the result", text));
        }
        Ok(Self { operands, result })
    }

    fn plan(&self, text: &str, dims: [&[usize]; 2]) -> Result<Plan> {
        let [left, right] = &self.operands;
        for (letters, dims) in self.operands.iter().zip(dims) {
            if letters.len() != dims.len() {
                return Err(refused(format!("{} letters for a tensor of shape {dims:?}", dims.len()), text));
            }
        }
        let sizes =
            |c: char| self.operands.iter().zip(dims).filter_map(move |(o, d)| Some(d[o.iter().position(|&l| l == c)?]));
        let size = |c: char| sizes(c).next().unwrap_or(1);
        if let Some(c) = left.iter().find(|&&c| sizes(c).any(|other| other != size(c))) {
            return Err(refused(format!("one size for `{c}` in {:?} and {:?}", dims[0], dims[1]), text));
        }
        let kept = |c: &char| self.result.contains(c);
        let pick = |from: &[char], test: &dyn Fn(&char) -> bool| from.iter().copied().filter(test).collect::<Vec<_>>();
        let batch = pick(left, &|c| right.contains(c) && kept(c));
        let inner = pick(left, &|c| right.contains(c) && !kept(c));
        let rows = pick(left, &|c| !right.contains(c) && kept(c));
        let columns = pick(right, &|c| !left.contains(c) && kept(c));
        let product = [batch.as_slice(), &rows, &columns].concat();
        Ok(Plan {
            operands: [
                Operand::new(left, [&batch, &rows, &inner], size),
                Operand::new(right, [&batch, &inner, &columns], size),
            ],
            shape: product.iter().map(|&c| size(c)).collect(),
            order: positions(&self.result, &product),
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

/// The letters that occur once, in alphabetical order.
fn implied([left, right]: &[Vec<char>; 2]) -> Vec<char> {
    let once = left.iter().filter(|c| !right.contains(c)).chain(right.iter().filter(|c| !left.contains(c)));
    let mut once: Vec<char> = once.copied().collect();
    once.sort_unstable();
    once
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
        for equation in ["bij,bki->bjk", "bij,bki->kb", "bij,cki->jc"] {
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
            ("ii,ij->j", "distinct letters"),
            ("i1,1j->ij", "distinct letters"),
            ("ij,jk->iz", "letters of the operands"),
            ("ijk,kl->il", "2 letters for a tensor of shape [2, 3]"),
            ("ij,jk->ik", "one size for `j` in [2, 3] and [2, 3]"),
        ] {
            let error = x.einsum(equation, &x).unwrap_err().to_string();
            assert!(error.starts_with("einsum: equation") && error.contains(says), "{equation}: {error}");
        }
    }
}
