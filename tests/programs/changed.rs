//! Tensors that change behind exclusive references between two uses: each use takes what is there then.

use super::T;
use amp::prelude::*;

struct S {
    k: T,
}
impl S {
    fn is_one(&self) -> bool {
        self.k.dims() == [1, 1]
    }
    fn up(&mut self, u: &T) {
        self.k = u.clone();
    }
}

fn up(k: &mut T, u: &T) {
    *k = u.clone();
}

fn filled(value: f32) -> T {
    Tensor::full([1, 1], value, &Device::cpu()).unwrap()
}

mod behind_types {
    use super::{T, up};
    use amp::prelude::*;

    #[autocast(f16)]
    pub fn local(x: &T, u: &T, w: &mut [T]) -> Result<T> {
        let last: &mut Tensor<F32> = w.last_mut().unwrap();
        let h = x.matmul(last)?;
        *last = (&*last * u)?;
        h.matmul(last)
    }

    #[autocast(f16)]
    pub fn receiver(x: &T, u: &T, w: &mut [T]) -> Result<T> {
        let last: &mut Tensor<F32> = w.last_mut().unwrap();
        let h = last.matmul(x)?;
        up(last, u);
        last.matmul(&h)
    }

    #[autocast(f16)]
    pub fn swapped(x: &T, u: &T, w: &mut [T]) -> Result<T> {
        let (mut u, last): (T, &mut T) = (u.clone(), w.last_mut().unwrap());
        let h = x.linear(last, None)?;
        std::mem::swap(last, &mut u);
        h.linear(last, None)
    }

    #[autocast(f16)]
    pub fn closure(x: &T, u: &T, w: &mut [T]) -> Result<T> {
        let mut all = w.iter_mut().map(|k: &mut Tensor<F32>| -> Result<Tensor<F32>> {
            let h = x.matmul(k)?;
            *k = (&*k * u)?;
            h.matmul(k)
        });
        all.next().unwrap()
    }

    #[autocast(f16)]
    pub fn folded(x: &T, u: &T, w: &mut [T]) -> Result<T> {
        w.iter_mut().try_fold(x.clone(), |h, k: &mut T| {
            let h = h.matmul(k)?;
            up(k, u);
            h.matmul(k)
        })
    }

    type Exclusive<'a> = &'a mut Tensor<F32>;

    #[autocast(f16)]
    fn renamed_parameter(x: &T, u: &T, k: Exclusive<'_>) -> Result<T> {
        let h = x.matmul(k)?;
        *k = u.clone();
        h.matmul(k)
    }

    pub fn renamed(x: &T, u: &T, w: &mut [T]) -> Result<T> {
        renamed_parameter(x, u, &mut w[0])
    }

    struct Held<'a> {
        k: &'a mut T,
    }

    #[autocast(f16)]
    fn of_held(x: &T, u: &T, held: Held<'_>) -> Result<T> {
        let h = x.matmul(held.k)?;
        up(held.k, u);
        h.matmul(held.k)
    }

    pub fn held(x: &T, u: &T, w: &mut [T]) -> Result<T> {
        of_held(x, u, Held { k: &mut w[0] })
    }

    #[autocast(f16)]
    pub fn by_macro(x: &T, u: &T, w: &mut [T]) -> Result<T> {
        let last: &mut T = &mut w[0];
        macro_rules! renew {
            () => {
                *last = u.clone()
            };
        }
        let h = x.matmul(last)?;
        renew!();
        h.matmul(last)
    }

    #[autocast(f16)]
    pub fn handed_on(x: &T, u: &T, w: &mut [T]) -> Result<T> {
        let last: &mut T = &mut w[0];
        let h = x.matmul(last)?;
        {
            let other: &mut T = last;
            *other = u.clone();
        }
        h.matmul(last)
    }
}

mod patterns {
    use super::{S, T};
    use amp::prelude::*;

    #[autocast(f16)]
    pub fn looped(x: &T, u: &T, all: &mut [S]) -> Result<T> {
        let mut h = x.clone();
        for s in all.iter_mut() {
            h = h.matmul(&s.k)?;
            s.k = u.clone();
            h = h.matmul(&s.k)?;
        }
        Ok(h)
    }

    #[autocast(f16)]
    pub fn by_method(x: &T, u: &T, all: &mut [S]) -> Result<T> {
        let mut h = x.clone();
        for s in all {
            h = h.matmul(&s.k)?;
            s.up(u);
            h = h.matmul(&s.k)?;
        }
        Ok(h)
    }

    #[autocast(f16)]
    pub fn declared(x: &T, u: &T, all: &mut [S]) -> Result<T> {
        let s = &mut all[0];
        let h = x.matmul(&s.k)?;
        s.up(u);
        h.matmul(&s.k)
    }

    #[autocast(f16)]
    pub fn later(x: &T, u: &T, all: &mut [S]) -> Result<T> {
        let s;
        s = &mut all[0];
        let h = x.matmul(&s.k)?;
        s.up(u);
        h.matmul(&s.k)
    }

    #[autocast(f16)]
    pub fn let_else(x: &T, u: &T, all: &mut [S]) -> Result<T> {
        let Some(s) = all.first_mut() else { return Ok(x.clone()) };
        let h = x.matmul(&s.k)?;
        s.k = u.clone();
        h.matmul(&s.k)
    }

    #[autocast(f16)]
    pub fn if_let(x: &T, u: &T, all: &mut [S]) -> Result<T> {
        let mut h = x.clone();
        if let Some(s) = all.first_mut() {
            h = h.matmul(&s.k)?;
            s.k = u.clone();
            h = h.matmul(&s.k)?;
        }
        Ok(h)
    }

    #[autocast(f16)]
    pub fn fields(x: &T, u: &T, all: &mut [S]) -> Result<T> {
        match all {
            [S { k }, ..] => {
                let h = x.matmul(k)?;
                *k = u.clone();
                h.matmul(k)
            }
            [] => Ok(x.clone()),
        }
    }

    #[autocast(f16)]
    pub fn by_reference(x: &T, u: &T, all: &mut [S]) -> Result<T> {
        let S { ref mut k } = all[0];
        let h = x.matmul(k)?;
        *k = u.clone();
        h.matmul(k)
    }

    #[autocast(f16)]
    pub fn unwrapped(x: &T, u: &T, all: &mut [S]) -> Result<T> {
        let mut slot = Some(&mut all[0]);
        let s = slot.as_mut().unwrap();
        let h = x.matmul(&s.k)?;
        s.up(u);
        h.matmul(&s.k)
    }

    #[autocast(f16)]
    pub fn parameter(x: &T, u: &T, all: &mut [S]) -> Result<T> {
        let mut h = x.clone();
        all.iter_mut().try_for_each(|s| {
            h = h.matmul(&s.k)?;
            s.k = u.clone();
            h = h.matmul(&s.k)?;
            Ok::<_, Error>(())
        })?;
        Ok(h)
    }
}

mod references {
    use super::T;
    use amp::prelude::*;

    #[autocast(f16)]
    pub fn in_a_loop(x: &T, u: &T, k: T) -> Result<T> {
        let mut k = k;
        let r = &mut k;
        let mut h = x.clone();
        for _ in 0..2 {
            h = h.matmul(r)?;
            *r = u.clone();
        }
        Ok(h)
    }

    #[autocast(f16)]
    pub fn in_an_array(x: &T, u: &T, k: T) -> Result<T> {
        let mut k = k;
        let ks: [&mut Tensor<F32>; 1] = [&mut k];
        let h = x.matmul(ks[0])?;
        *ks[0] = u.clone();
        h.matmul(ks[0])
    }

    #[autocast(f16)]
    pub fn in_a_list(x: &Tensor<F32>, u: &T, mut k: T) -> Result<T> {
        let ks = vec![&mut k];
        let h = x.matmul(ks[0])?;
        for k in ks {
            *k = u.clone();
        }
        h.matmul(&k)
    }

    #[autocast(f16)]
    pub fn captured(x: &Tensor<F32>, u: &T, mut k: Tensor<F32>) -> Result<T> {
        let r = &mut k;
        let f = |t: &Tensor<F32>| t.matmul(r);
        let h = f(x)?;
        *r = u.clone();
        h.matmul(r)
    }

    #[autocast(f16)]
    pub fn only_read(x: &Tensor<F32>, u: &T, mut k: T) -> Result<T> {
        let r = &mut k;
        let f = |t: &Tensor<F32>| t.matmul(r);
        let g = |t: &Tensor<F32>| r.matmul(t);
        f(&g(x)?)?.matmul(u)
    }

    #[autocast(f16)]
    pub fn met(x: &Tensor<F32>, u: &T, mut k: T) -> Result<T> {
        let ks = [&mut k];
        let h = x.mul(ks[0])?;
        ks[0].clone_from(u);
        h.matmul(ks[0])
    }
}

/// What is only read has one cast, however it was borrowed.
mod read {
    use super::{S, T};
    use amp::prelude::*;

    #[autocast(f16, max_casts = 2)]
    pub fn typed(x: &Tensor<F32>, all: &mut [S]) -> Result<T> {
        let k: &mut Tensor<F32> = &mut all[0].k;
        let h = x.matmul(k)?;
        h.matmul(k)
    }

    #[autocast(f16, max_casts = 2)]
    pub fn field(x: &Tensor<F32>, all: &mut [S]) -> Result<T> {
        let s = &mut all[0];
        let h = x.matmul(&s.k)?;
        h.matmul(&s.k)
    }

    #[autocast(f16, max_casts = 2)]
    pub fn item(x: &Tensor<F32>, all: &mut [S]) -> Result<T> {
        let mut h = x.relu()?;
        for s in all.iter_mut() {
            h = x.matmul(&s.k)?.matmul(&s.k)?;
        }
        Ok(h)
    }

    #[autocast(f16, max_casts = 2)]
    pub fn shared(x: &Tensor<F32>, all: &mut [S]) -> Result<T> {
        let mut h = x.relu()?;
        for s in all.iter().rev() {
            assert!(s.is_one());
            h = x.matmul(&s.k)?.matmul(&s.k)?;
        }
        Ok(h)
    }

    #[autocast(f16, max_casts = 2)]
    pub fn shared_parameter(x: &Tensor<F32>, all: &mut [S]) -> Result<T> {
        let all = &*all;
        all.iter().try_fold(x.relu()?, |_, s| {
            assert!(s.is_one());
            x.matmul(&s.k)?.matmul(&s.k)
        })
    }

    #[autocast(f16, max_casts = 2)]
    pub fn matched(x: &Tensor<F32>, all: &mut [S]) -> Result<T> {
        match &*all {
            [s] if s.is_one() => x.matmul(&s.k)?.matmul(&s.k),
            _ => x.relu(),
        }
    }

    #[autocast(f16, max_casts = 2)]
    pub fn parameter(x: &Tensor<F32>, all: &mut [S]) -> Result<T> {
        let one = |k: &mut Tensor<F32>| -> Result<T> { x.matmul(k)?.matmul(k) };
        one(&mut all[0].k)
    }
}

#[test]
fn what_does_not_change_is_narrowed_once() -> Result<()> {
    let read =
        [read::typed, read::field, read::item, read::shared, read::shared_parameter, read::matched, read::parameter];
    for f in read {
        assert_eq!(f(&filled(3.0), &mut [S { k: filled(2.0) }])?.to_vec()?, [12.0]);
    }
    Ok(())
}

/// The first use takes 1, the second one 10.
#[test]
fn what_changes_between_its_uses_is_narrowed_again() -> Result<()> {
    let (one, ten) = (filled(1.0), filled(10.0));
    let typed = [
        behind_types::local,
        behind_types::receiver,
        behind_types::swapped,
        behind_types::closure,
        behind_types::folded,
        behind_types::renamed,
        behind_types::held,
        behind_types::by_macro,
        behind_types::handed_on,
    ];
    for (i, f) in typed.iter().enumerate() {
        assert_eq!(f(&one, &ten, &mut [one.clone()])?.to_vec()?, [10.0], "type {i}");
    }
    let patterns = [
        patterns::looped,
        patterns::by_method,
        patterns::declared,
        patterns::later,
        patterns::let_else,
        patterns::if_let,
        patterns::fields,
        patterns::by_reference,
        patterns::unwrapped,
        patterns::parameter,
    ];
    for (i, f) in patterns.iter().enumerate() {
        assert_eq!(f(&one, &ten, &mut [S { k: one.clone() }])?.to_vec()?, [10.0], "pattern {i}");
    }
    let references = [
        references::in_a_loop,
        references::in_an_array,
        references::in_a_list,
        references::captured,
        references::only_read,
        references::met,
    ];
    for (i, f) in references.iter().enumerate() {
        assert_eq!(f(&one, &ten, one.clone())?.to_vec()?, [10.0], "reference {i}");
    }
    Ok(())
}
