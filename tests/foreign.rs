//! Methods of types that are no tensors and are called as operations are: what they do with their receiver is what they
//! do outside of a region. Every body below is written once and compiled three times: plain, in F16, in any precision.

#![allow(clippy::boxed_local, clippy::extra_unused_type_parameters, clippy::ptr_arg)] // these forms are the test

use amp::prelude::*;
use std::rc::Rc;
use std::sync::Arc;

fn square() -> Tensor<F32> {
    Tensor::ones([2, 2], &Device::cpu()).expect("four numbers")
}

/// Cannot be copied, and takes its receiver in every way there is.
#[derive(Debug, PartialEq)]
struct Timer(String, usize);

impl Timer {
    fn new(count: usize) -> Self {
        Self("t".repeat(count), count)
    }

    fn softmax(self) -> Self {
        Self(self.0 + "s", self.1 + 1)
    }

    fn exp(&self) -> &str {
        &self.0
    }

    fn sum(&mut self, n: usize) -> &mut usize {
        self.1 += n;
        &mut self.1
    }

    fn log(self: Box<Self>) -> usize {
        self.1
    }

    fn prod(self: Rc<Self>, by: usize) -> usize {
        self.1 * by
    }

    fn mean(self: Arc<Self>) -> usize {
        self.1
    }

    async fn norm(self) -> String {
        self.0
    }

    async fn pow(&self, n: u32) -> usize {
        self.1.pow(n)
    }

    fn matmul(self, other: Self) -> Self {
        Self(self.0 + &other.0, self.1 + other.1)
    }

    fn bmm<T: Into<usize>>(mut self, n: T) -> Self {
        self.1 *= n.into();
        self
    }

    fn max(&mut self, buffer: &mut Vec<usize>) {
        buffer.push(self.1);
    }

    fn var(self, f: impl Fn(usize) -> usize) -> usize {
        f(self.1)
    }

    fn linear(&self, x: &Tensor<F32>) -> usize {
        x.dims().len() + self.1
    }

    fn amin<T: From<u8>>(&self) -> T {
        T::from(7)
    }

    fn amax<T: From<u8>>(&mut self) -> T {
        self.1 += 1;
        T::from(9)
    }
}

trait Reduce {
    fn cumsum(self) -> usize;
    fn std(&self) -> usize;
    fn cumprod(&mut self) -> usize;
}

impl Reduce for Timer {
    fn cumsum(self) -> usize {
        self.1
    }

    fn std(&self) -> usize {
        self.1
    }

    fn cumprod(&mut self) -> usize {
        self.1 += 1;
        self.1
    }
}

trait Shape {
    fn cummax(&self) -> usize;
    fn sum(&mut self) -> usize;
    fn log(self: Box<Self>) -> usize;
}

impl Shape for Timer {
    fn cummax(&self) -> usize {
        self.1
    }

    fn sum(&mut self) -> usize {
        self.1 += 1;
        self.1
    }

    fn log(self: Box<Self>) -> usize {
        self.1
    }
}

#[derive(Clone, Copy)]
struct Dial(usize);

impl Dial {
    fn exp(self) -> usize {
        self.0
    }

    fn log(&self) -> usize {
        self.0
    }

    fn softmax(&mut self) -> usize {
        self.0 += 1;
        self.0
    }
}

struct Holder {
    timer: Timer,
    boxed: Box<Timer>,
    list: Vec<Timer>,
    items: Vec<i32>,
    w: Tensor<F32>,
}

impl Holder {
    fn new(x: &Tensor<F32>) -> Self {
        let items = vec![3, 1, 2];
        Self { timer: Timer::new(1), boxed: Box::new(Timer::new(2)), list: vec![Timer::new(3)], items, w: x.clone() }
    }
}

macro_rules! same {
    ($x:ident; $($name:ident($($arg:pat_param => $ty:ty = $value:expr),*) -> $result:ty { $($body:tt)* })*) => { $(
        #[test]
        fn $name() {
            #[allow(unused_variables)]
            fn plain($x: &Tensor<F32>, $($arg: $ty),*) -> Result<$result> { $($body)* }
            #[allow(unused_variables)]
            #[autocast(f16)]
            fn half($x: &Tensor<F32>, $($arg: $ty),*) -> Result<$result> { $($body)* }
            #[allow(unused_variables)]
            #[autocast(P)]
            fn any<P: AutocastPrecision>($x: &Tensor<F32>, $($arg: $ty),*) -> Result<$result> { $($body)* }
            let x = &square();
            let expected = plain(x, $($value),*).expect("no tensor fails");
            assert_eq!(half(x, $($value),*).expect("no tensor fails"), expected);
            assert_eq!(any::<BF16>(x, $($value),*).expect("no tensor fails"), expected);
            assert_eq!(any::<F32>(x, $($value),*).expect("no tensor fails"), expected);
        }
    )* };
}

same! {
    x;
    moved(timer => Timer = Timer::new(1)) -> Timer {
        let timer = timer.softmax();
        let y = x.matmul(x)?.softmax(-1)?;
        let timer = timer.softmax().bmm(y.dims()[0]);
        Ok(timer)
    }
    moved_with_others(a => Timer = Timer::new(1), b => Timer = Timer::new(2)) -> usize {
        let timer = a.matmul(b);
        Ok(timer.linear(x) + timer.linear(x) + timer.var(|n| n + 1))
    }
    borrowed(timer => Timer = Timer::new(3)) -> usize {
        let name = timer.exp();
        Ok(name.len() + timer.std() + timer.exp().len() + timer.linear(x))
    }
    borrowed_exclusively(mut timer => Timer = Timer::new(3)) -> (Timer, Vec<usize>) {
        *timer.sum(2) += 1;
        let mut buffer = Vec::new();
        let lent = &mut buffer;
        timer.max(lent);
        timer.max(lent);
        let other = &mut timer;
        other.sum(1);
        *other.sum(5) *= 7;
        other.cumprod();
        Ok((timer, buffer))
    }
    behind_pointers(a => Box<Timer> = Box::new(Timer::new(1)), b => Rc<Timer> = Rc::new(Timer::new(2)), c => Arc<Timer> = Arc::new(Timer::new(3))) -> usize {
        let n = a.exp().len() + b.std() + c.exp().len();
        Ok(n + a.log() + b.clone().prod(2) + b.prod(3) + c.mean())
    }
    out_of_a_box(a => Box<Timer> = Box::new(Timer::new(1)), b => Box<Timer> = Box::new(Timer::new(2)), mut c => Box<Timer> = Box::new(Timer::new(2))) -> (Timer, Timer, usize) {
        c.sum(1);
        (*c).sum(2);
        Ok(((*a).softmax(), b.softmax(), c.cumsum()))
    }
    result_by_who_takes_it(timer => Timer = Timer::new(3), mut other => Timer = Timer::new(4)) -> (f64, u64, Timer) {
        let n: u32 = timer.amin();
        let m: u64 = other.amax();
        let numbers: Vec<f64> = vec![timer.amin(), other.amax(), f64::from(n)];
        Ok((numbers.iter().sum(), m, other))
    }
    containers(mut list => Vec<i32> = vec![3, 1, 2], other => &mut Vec<i32> = &mut vec![3, 1, 2], slice => &mut [i32] = &mut [3, 1, 2]) -> Vec<i32> {
        list.sort();
        other.sort();
        slice.sort();
        let mut array = [9, 8, 7];
        array[1..].sort();
        let mut all = [&list[..], &other[..], &slice[..], &array[..]].concat();
        all[..5].sort();
        array.sort();
        Ok([all, array.to_vec()].concat())
    }
    options(a => Option<String> = Some("a".into()), b => Option<String> = Some("b".into()), c => Option<Timer> = Some(Timer::new(1))) -> (Option<String>, usize) {
        let larger = a.max(b);
        Ok((larger, c.map_or(0, |timer| timer.softmax().1)))
    }
    iterators(list => Vec<i32> = vec![3, 1, 2]) -> (i32, Option<i32>, bool, bool, usize) {
        let sum = list.iter();
        let sum: i32 = sum.sum();
        let max = list.clone().into_iter();
        let max = max.max();
        let equal = list.iter();
        let equal = equal.eq(list.iter());
        let mut some = list.iter();
        let any = some.any(|item| *item == 3);
        let rest = &mut some;
        let all = rest.all(|item| *item > 1);
        Ok((sum, max, equal && all, any, some.count()))
    }
    fields(n => usize = 2) -> (Timer, Timer, usize, Vec<i32>) {
        let mut holder = Holder::new(x);
        holder.items.sort();
        holder.timer.sum(n);
        holder.list[0].sum(n);
        let moved = holder.timer.softmax();
        let y = holder.w.matmul(x)?;
        Ok((moved, holder.boxed.softmax(), holder.list[0].exp().len() + holder.list[0].1 + y.dims()[0], holder.items))
    }
    tuples(pair => (Timer, Tensor<F32>) = (Timer::new(2), square())) -> (Timer, usize) {
        let timer = pair.0.softmax();
        Ok((timer, pair.1.matmul(x)?.dims().len()))
    }
    copies(dial => Dial = Dial(1), mut other => Dial = Dial(2)) -> usize {
        let mut third = other;
        let n = dial.exp() + dial.log() + dial.exp() + other.softmax() + other.softmax() + third.softmax();
        Ok(n * 10 + other.0)
    }
    traits(a => Box<dyn Shape> = Box::new(Timer::new(1)), mut b => Box<dyn Shape> = Box::new(Timer::new(2)), c => &dyn Shape = &Timer::new(3), d => &mut dyn Shape = &mut Timer::new(4)) -> usize {
        Ok(a.cummax() + b.sum() + b.sum() + c.cummax() + d.sum() + d.sum() + a.log())
    }
    bounds(a => impl Reduce = Timer::new(1), mut b => impl Reduce = Timer::new(2), c => &mut impl Reduce = &mut Timer::new(3)) -> usize {
        Ok(a.std() + a.cumsum() + b.cumprod() + b.cumprod() + b.cumsum() + c.cumprod() + c.cumprod() + c.std())
    }
    temporaries(n => usize = 2) -> usize {
        let made = || Timer::new(n);
        let length = Timer::new(n).exp().len() + made().softmax().exp().len();
        Ok(length + *Timer::new(n).sum(2) + Timer::new(1).matmul(made()).1 + Box::new(made()).log())
    }
    loops(timers => Vec<Timer> = vec![Timer::new(1), Timer::new(2)], mut last => Timer = Timer::new(3), mut builder => Timer = Timer::new(4)) -> (usize, Timer, Timer) {
        let mut n = 0;
        let mut h = x.clone();
        for timer in timers {
            n += timer.exp().len();
            n += timer.softmax().1;
            last.sum(n);
            builder = builder.softmax();
            h = h.matmul(x)?.softmax(-1)?;
        }
        Ok((n + h.dims()[0], last, builder))
    }
    branches(timer => Timer = Timer::new(1), some => Option<Timer> = Some(Timer::new(2))) -> usize {
        let n = if x.rank() == 2 { timer.softmax().1 } else { timer.exp().len() + timer.cumsum() };
        let m = match some {
            Some(timer) if timer.exp().len() > 3 => timer.softmax().1,
            Some(timer) => timer.cumsum(),
            None => 0,
        };
        Ok(n + m)
    }
    closures(timers => Vec<Timer> = vec![Timer::new(1), Timer::new(2)]) -> usize {
        let n: usize = timers.into_iter().map(|timer| timer.softmax()).map(|timer| timer.cumsum()).sum();
        let holder = Holder::new(x);
        let h = &holder.w;
        let all = (0..3).map(|_| h.matmul(&holder.w)).collect::<Result<Vec<_>>>();
        Ok(n + usize::from(all.is_ok()))
    }
    strings(name => String = "name".into(), parts => Vec<String> = vec!["a".into(), "b".into()]) -> (String, String) {
        let longer = name.max("longer".to_owned());
        Ok((longer, parts.concat()))
    }
}

#[autocast(f16)]
async fn awaited(x: &Tensor<F32>, timer: Timer, other: Timer) -> Result<(Tensor<F32>, usize)> {
    let n = other.pow(2).await;
    let name = timer.norm().await;
    Ok((x.matmul(x)?, n + name.len() + other.norm().await.len()))
}

#[autocast(f16)]
fn with_lifetimes<'a>(
    x: &Tensor<F32>,
    timer: &'a Timer,
    other: &'a mut Timer,
) -> Result<(Tensor<F32>, &'a str, &'a mut usize)> {
    let name = timer.exp();
    let count = other.sum(2);
    Ok((x.matmul(x)?, name, count))
}

struct Model<P: AutocastPrecision> {
    w: Tensor<F32>,
    timer: Timer,
    items: Vec<i32>,
    state: std::marker::PhantomData<P>,
}

impl<P: AutocastPrecision> Model<P> {
    #[autocast(P)]
    fn forward(&mut self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        self.timer.sum(self.linear(x) + self.linear(x));
        self.items.sort();
        self.w.matmul(x)?.softmax(-1)
    }

    #[autocast(P)]
    fn consume(self, x: &Tensor<F32>) -> Result<(Tensor<F32>, Timer, Vec<i32>)> {
        let timer = self.timer.softmax();
        Ok((self.w.matmul(x)?, timer, self.items))
    }

    fn linear(&self, x: &Tensor<F32>) -> usize {
        x.rank()
    }
}

fn finished<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("nothing is waited for"),
    }
}

#[test]
fn methods_may_be_async_or_give_references() {
    let x = &square();
    let (y, n) = finished(awaited(x, Timer::new(2), Timer::new(3))).expect("a product");
    assert_eq!((y.dims(), n), (&[2, 2][..], 9 + 2 + 3));
    let (timer, mut other) = (Timer::new(1), Timer::new(2));
    let (_, name, count) = with_lifetimes(x, &timer, &mut other).expect("a product");
    assert_eq!((name, *count), ("t", 4));
}

#[test]
fn a_model_of_any_precision_has_other_fields() {
    let x = &square();
    let (w, items) = (square(), vec![3, 1, 2]);
    let mut model = Model::<F16> { w, timer: Timer::new(1), items, state: std::marker::PhantomData };
    let p = model.forward(x).expect("probabilities");
    assert_eq!((p.dims(), model.timer.1), (&[2, 2][..], 5));
    let (_, timer, items) = model.consume(x).expect("a product");
    assert_eq!((timer.1, items), (6, vec![1, 2, 3]));
}
