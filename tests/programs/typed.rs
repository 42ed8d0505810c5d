//! Products beside what only its type tells: fields, parameters of a named type, what methods of one's own give.

use super::*;

struct Block {
    fc: Linear,
    start: T,
}

impl Block {
    fn halved(&self, x: &T) -> Result<T> {
        x * 0.5
    }

    fn at_the_start(&self) -> T {
        self.start.clone()
    }

    #[autocast(f16)]
    fn carried(&self, x: &T) -> Result<T> {
        let mut h = self.fc.forward(x)?;
        for _ in 0..2 {
            h = self.halved(&h)?;
        }
        h.matmul(&self.start)
    }

    #[autocast(f16)]
    fn reset(&self, x: &T, again: bool) -> Result<T> {
        let mut h = self.fc.forward(x)?;
        if again {
            h = self.at_the_start();
        }
        h.relu()
    }

    #[autocast(f16)]
    fn late(&self, x: &T, again: bool) -> Result<T> {
        let h;
        if again {
            h = self.start.clone();
        } else {
            h = self.fc.forward(x)?;
        }
        Ok(h)
    }

    #[autocast(f16)]
    fn broken_off(&self, x: &T, again: bool) -> Result<T> {
        let mut count = 0;
        let h = loop {
            count += 1;
            if again && count > 1 {
                break self.start.clone();
            }
            if !again {
                break self.fc.forward(x)?;
            }
        };
        Ok(h)
    }

    #[autocast(f16)]
    fn instead(&self, x: &T, again: bool) -> Result<[T; 4]> {
        let given = || -> Result<Option<T>> { if again { Ok(None) } else { Ok(Some(x.clone())) } };
        let product = if again { None } else { Some(x.matmul(x)?) };
        let at_once = product.unwrap_or(self.start.exp()?);
        let product = given()?.map(|x| x.matmul(&x)).transpose()?;
        let asked = product.unwrap_or_else(|| self.at_the_start());
        let product = if again { None } else { Some(x.matmul(x)?) };
        let other = product.or(Some(self.start.clone())).expect("one of both");
        let product = if again { None } else { Some(self.fc.forward(x)?) };
        let chosen = product.map_or(self.start.clone(), |product| product);
        Ok([at_once, asked, other, chosen])
    }

    #[autocast(f16)]
    fn elements(&self, x: &T, again: bool) -> Result<(usize, T, T)> {
        let mut pair = (x.matmul(x)?, x.clone());
        if again {
            pair.0 = self.start.clone();
        }
        let mut last = (0, self.start.clone());
        for i in 1..3 {
            last = (i, x.matmul(x)?);
        }
        Ok((last.0, pair.0, last.1))
    }

    /// As the shortcut of a residual block, which only some have.
    #[autocast(f16)]
    fn lent(&self, x: &T, again: bool) -> Result<[T; 2]> {
        let shortcut = if again { None } else { Some(self.fc.forward(x)?) };
        let identity = shortcut.as_ref().unwrap_or(x);
        let list = if again { Vec::new() } else { vec![x.matmul(x)?] };
        let last = list.last().unwrap_or(&self.start);
        Ok([identity.matmul(x)?, last.relu()?])
    }

    #[autocast(f16)]
    fn of_modules(&self, norm: &LayerNorm, x: &T, again: bool) -> Result<(T, usize, T)> {
        let h;
        if again {
            h = norm.forward(x)?;
        } else {
            h = self.fc.forward(x)?;
        }
        let mut last = (0, norm.forward(x)?);
        for i in 1..2 {
            last = (i, self.fc.forward(x)?);
        }
        Ok((h, last.0, last.1))
    }

    #[autocast(f16)]
    fn of_functions(&self, x: &T) -> Result<Vec<T>> {
        let mut all = Vec::new();
        all.push(x.matmul(x)?);
        all.push(doubled(x)?);
        let mut more = [x.matmul(x)?, x.matmul(x)?];
        more[1] = doubled(x)?;
        all.extend(more);
        Ok(all)
    }

    #[autocast(f16)]
    fn lists(&self, x: &T) -> Result<Vec<T>> {
        let mut all = vec![x.matmul(x)?];
        all.push(self.start.clone());
        let mut more = vec![self.start.clone()];
        more.extend([x.matmul(x)?]);
        all.extend(more);
        Ok(all)
    }
}

fn doubled(x: &T) -> Result<T> {
    x * 2.0
}

#[autocast(f16)]
fn unzipped(fcs: &[Linear], x: &T) -> Result<T> {
    let (relus, exps): (Vec<Tensor<F32>>, Vec<Tensor<F32>>) = fcs
        .iter()
        .map(|fc| {
            let h = fc.forward(x)?;
            Ok((h.relu()?, h.exp()?))
        })
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .unzip();
    Tensor::stack(&relus, 0)? + Tensor::stack(&exps, 0)?
}

#[test]
fn what_only_types_tell_apart_joins_at_f32() -> Result<()> {
    let device = Device::cpu();
    let block = Block { fc: Linear::new(4, 4, &device)?, start: random([4, 4])? };
    let (x, start) = (random([4, 4])?, block.start.to_vec()?);
    let x16 = x.to::<F16>()?;
    let (given, product) = (block.fc.forward(&x16)?.to::<F32>()?, x16.matmul(&x16)?.to::<F32>()?);
    let carried = (&given * 0.25)?.to::<F16>()?.matmul(&block.start.to::<F16>()?)?.to::<F32>()?;
    assert_eq!(block.carried(&x)?.to_vec()?, carried.to_vec()?);
    assert_eq!(block.reset(&x, false)?.to_vec()?, given.relu()?.to_vec()?);
    assert_eq!(block.reset(&x, true)?.to_vec()?, block.start.relu()?.to_vec()?);
    for found in [block.late(&x, false)?, block.broken_off(&x, false)?] {
        assert_eq!(found.to_vec()?, given.to_vec()?);
    }
    for found in [block.late(&x, true)?, block.broken_off(&x, true)?] {
        assert_eq!(found.to_vec()?, start);
    }
    for (found, expected) in block.instead(&x, false)?.iter().zip([&product, &product, &product, &given]) {
        assert_eq!(found.to_vec()?, expected.to_vec()?);
    }
    let from_the_start = [&block.start.exp()?, &block.start, &block.start, &block.start];
    for (found, expected) in block.instead(&x, true)?.iter().zip(from_the_start) {
        assert_eq!(found.to_vec()?, expected.to_vec()?);
    }
    for (again, first) in [(false, &product), (true, &block.start)] {
        let (count, found, last) = block.elements(&x, again)?;
        assert_eq!((count, found.to_vec()?, last.to_vec()?), (2, first.to_vec()?, product.to_vec()?));
    }
    let lists: Vec<Vec<f32>> = block.lists(&x)?.iter().map(Tensor::to_vec).collect::<Result<_>>()?;
    assert_eq!(lists, [product.to_vec()?, start.clone(), start, product.to_vec()?]);
    let half = |x: &T| x.to::<F16>();
    for (again, identity, last) in [(false, &given, &product), (true, &x, &block.start)] {
        let [found, other] = block.lent(&x, again)?;
        assert_eq!(found.to_vec()?, half(identity)?.matmul(&x16)?.to::<F32>()?.to_vec()?);
        assert_eq!(other.to_vec()?, last.relu()?.to_vec()?);
    }
    let norm = LayerNorm::new([4], &device)?;
    for (again, expected) in [(false, &given), (true, &norm.forward(&x)?)] {
        let (found, count, last) = block.of_modules(&norm, &x, again)?;
        assert_eq!((found.to_vec()?, count, last.to_vec()?), (expected.to_vec()?, 1, given.to_vec()?));
    }
    let doubled: Vec<f32> = doubled(&x)?.to_vec()?;
    let all: Vec<Vec<f32>> = block.of_functions(&x)?.iter().map(Tensor::to_vec).collect::<Result<_>>()?;
    assert_eq!(all, [product.to_vec()?, doubled.clone(), product.to_vec()?, doubled]);
    let sum = unzipped(std::slice::from_ref(&block.fc), &x)?;
    assert_eq!(sum.to_vec()?, (given.relu()? + given.exp()?)?.to_vec()?);
    Ok(())
}

#[autocast(f16)]
fn arrays(l: &Linear, x: &T) -> Result<[T; 3]> {
    let pair: [T; 2] = [l.forward(x)?, l.forward(x)?];
    let mixed: [T; 2] = [l.forward(x)?, x.clone()];
    let options: [Option<T>; 2] = [Some(l.forward(x)?), None];
    let [one, two] = &pair;
    let [Some(three), None] = &options else { return Ok([one.clone(), two.clone(), x.clone()]) };
    let numbers: [usize; 2] = [one.rank(), 1];
    let scale = (numbers[0] / numbers[1]) as f64;
    Ok([(one + &mixed[0])?, (two * scale)?, (three + &mixed[1])?])
}

#[autocast(f16)]
fn made_before(l: &Linear, x: &T) -> Result<(T, [T; 2])> {
    let made = [l.forward(x)?, l.forward(x)?.relu()?];
    Ok((l.forward(x)?, made))
}

#[test]
fn arrays_hold_f32_by_another_name() -> Result<()> {
    let (l, x) = (Linear::new(4, 4, &Device::cpu())?, random([2, 4])?);
    let h = l.forward(&x.to::<F16>()?)?.to::<F32>()?;
    let [a, b, c] = arrays(&l, &x)?;
    for (found, expected) in [(a, (&h + &h)?), (b, (&h * 2.0)?), (c, (&h + &x)?)] {
        assert_eq!(found.to_vec()?, expected.to_vec()?);
    }
    let (first, [second, third]) = made_before(&l, &x)?;
    for (found, expected) in [(first, &h), (second, &h), (third, &h.relu()?)] {
        assert_eq!(found.to_vec()?, expected.to_vec()?);
    }
    Ok(())
}
