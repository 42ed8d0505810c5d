//~ error: the modules in a `Residual<L>` would not be trained, saved or switched
use amp::nn::Linear;
use amp::prelude::*;
use std::marker::PhantomData;

pub struct Residual<L>(pub L);

#[derive(Module)]
pub struct Net<L: Module> {
    body: Residual<L>,
    //~ ^ here
    kind: PhantomData<L>,
    hook: Option<fn(&L)>,
    head: Linear,
}

#[derive(Module)]
pub struct Wrapped<L, A>
where
    L: Module,
{
    inner: Vec<L>,
    other: Option<Residual<A>>,
}

fn main() {}
