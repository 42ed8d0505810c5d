//! Who takes the result of a `full` operation: when everybody narrows it, the operation writes the narrow result itself.
//!
//! Every expression that gives such a result, or a variable that holds it, is a use. A use counts as taken only where the
//! walk meets something that narrows it, binds it to a variable or commutes with rounding; everything else (a return, a
//! place, a call that is not known, a `full` operation) leaves it open, and one open use keeps the result in F32.

use std::collections::HashMap;
use syn::Expr;

/// A call, by its number in the order of the walk.
pub(crate) type Site = usize;

/// The uses that a value stands for. A copy of what is known about a value is no use of it.
#[derive(Debug, Default)]
pub(crate) struct Flow(Vec<usize>);

impl Clone for Flow {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Flow {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Flow {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The uses of several values, one of which it is; none if one of them has none.
    pub(crate) fn either(flows: Vec<Self>) -> Self {
        if flows.iter().any(Self::is_empty) {
            return Self::default();
        }
        Self(flows.into_iter().flat_map(|flow| flow.0).collect())
    }
}

/// A module that a result is given to; its type says whether it narrows it.
#[derive(Clone)]
pub(crate) struct Taker {
    pub(crate) place: Expr,
    /// The variable that the place begins with.
    pub(crate) var: usize,
    pub(crate) site: Site,
}

/// A call whose result may be written narrow.
struct Origin {
    site: Site,
    /// The region's precision there.
    half: String,
    /// It is an operation that can, not a module whose type says whether it can.
    sure: bool,
    narrowed: bool,
    takers: Vec<Taker>,
}

impl Origin {
    fn decision(&self) -> Decision {
        // A single module either narrows the result, and finds it narrow, or takes it in F32.
        let agreed = self.takers.is_empty() || self.takers.len() == 1 && !self.narrowed;
        Decision { takers: self.takers.clone(), free: self.sure && agreed }
    }
}

struct Use {
    origins: Vec<usize>,
    taken: bool,
}

/// How a call whose result nobody needs in F32 writes it.
#[derive(Clone)]
pub(crate) struct Decision {
    /// The modules that have to narrow it.
    pub(crate) takers: Vec<Taker>,
    /// Whoever narrows it finds it narrow.
    pub(crate) free: bool,
}

/// The calls that write a narrow result.
pub(crate) type Direct = HashMap<Site, Decision>;

/// Origins and uses of one round.
#[derive(Default)]
pub(crate) struct Flows {
    origins: Vec<Origin>,
    uses: Vec<Use>,
    of_var: HashMap<usize, Vec<usize>>,
}

impl Flows {
    /// The result of the call `site` in a region of precision `half`.
    pub(crate) fn produce(&mut self, site: Site, half: &str, sure: bool) -> Flow {
        self.origins.push(Origin { site, half: half.to_owned(), sure, narrowed: false, takers: Vec::new() });
        self.open(vec![self.origins.len() - 1])
    }

    fn open(&mut self, origins: Vec<usize>) -> Flow {
        self.uses.push(Use { origins, taken: false });
        Flow(vec![self.uses.len() - 1])
    }

    fn take(&mut self, flow: &Flow) -> Vec<usize> {
        let mut origins = Vec::new();
        for &number in &flow.0 {
            self.uses[number].taken = true;
            origins.extend(&self.uses[number].origins);
        }
        origins
    }

    /// The value goes on, changed in a way that commutes with rounding.
    pub(crate) fn pass(&mut self, flow: &Flow) -> Flow {
        if flow.is_empty() {
            return Flow::default();
        }
        let origins = self.take(flow);
        self.open(origins)
    }

    /// The value is asked for what it is in every precision.
    pub(crate) fn ask(&mut self, flow: &Flow) {
        self.take(flow);
    }

    /// From here on a variable holds the value.
    pub(crate) fn bind(&mut self, var: usize, flow: &Flow) {
        let origins = self.take(flow);
        self.of_var.insert(var, origins);
    }

    /// The variable is read.
    pub(crate) fn read(&mut self, var: usize) -> Flow {
        match self.of_var.get(&var) {
            Some(origins) if !origins.is_empty() => self.open(origins.clone()),
            _ => Flow::default(),
        }
    }

    /// An operation narrows the value to `half`.
    pub(crate) fn narrow(&mut self, flow: &Flow, half: &str) {
        if self.all_in(flow, half) {
            for origin in self.take(flow) {
                self.origins[origin].narrowed = true;
            }
        }
    }

    /// A module takes the value in a region of precision `half`.
    pub(crate) fn give(&mut self, flow: &Flow, half: &str, taker: &Taker) {
        if self.all_in(flow, half) {
            for origin in self.take(flow) {
                self.origins[origin].takers.push(taker.clone());
            }
        }
    }

    fn all_in(&self, flow: &Flow, half: &str) -> bool {
        flow.0.iter().flat_map(|&number| &self.uses[number].origins).all(|&origin| self.origins[origin].half == half)
    }

    /// The calls whose results nobody needs in F32.
    pub(crate) fn direct(&self) -> Direct {
        let mut open = vec![false; self.origins.len()];
        for one in self.uses.iter().filter(|one| !one.taken) {
            one.origins.iter().for_each(|&origin| open[origin] = true);
        }
        let closed = self.origins.iter().zip(open).filter(|(_, open)| !open).map(|(origin, _)| origin);
        closed
            .filter(|origin| origin.narrowed || !origin.takers.is_empty())
            .map(|origin| (origin.site, origin.decision()))
            .collect()
    }

    /// Whether a value was written narrow, whatever the modules are.
    pub(crate) fn is_free(&self, flow: &Flow, direct: &Direct) -> bool {
        let mut origins = flow.0.iter().flat_map(|&number| &self.uses[number].origins);
        let free = |&origin: &usize| direct.get(&self.origins[origin].site).is_some_and(|decision| decision.free);
        !flow.is_empty() && origins.all(free)
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;
    use syn::{Expr, ExprLit, ItemFn, Lit, Meta};

    /// The rows of the plan of a function with this body, each as `| call | class | in | out | casts | costed |`.
    fn plan(body: &str) -> Vec<String> {
        let body: proc_macro2::TokenStream = body.parse().unwrap();
        let function = quote! {
            fn f(&self, x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> { #body }
        };
        let function: ItemFn = syn::parse2(crate::expand::autocast(quote!(bf16), function)).unwrap();
        let text = function.attrs.iter().find_map(|attr| match &attr.meta {
            Meta::NameValue(doc) => match &doc.value {
                Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
                _ => None,
            },
            _ => None,
        });
        text.unwrap().lines().filter(|line| line.starts_with("| `")).map(str::to_owned).collect()
    }

    fn written(body: &str) -> usize {
        plan(body).iter().filter(|row| row.contains("| full | F32 | F32 as BF16 |")).count()
    }

    #[test]
    fn what_is_only_narrowed_is_written_narrow() {
        for body in [
            "x.softmax(-1)?.matmul(w)",
            "let n = x.softmax(-1)?; n.matmul(w)",
            "let n: Tensor<F32> = x.softmax(-1)?; n.matmul(w)",
            "let n = x.softmax(-1)?; let m = n.clone(); m.matmul(w)? + n.matmul(w)?",
            "let n = x.softmax(-1)?.relu()?.abs()?.reshape([n.dims()[0], 4])?.t()?; n.matmul(w)",
            "let n = x.softmax(-1)?; let d = n.dims()[0]; n.matmul(w)?.reshape([d])",
            "let n = x.softmax(-1).unwrap(); Ok(Tensor::matmul(w, &n).unwrap())",
            "let n = Tensor::softmax(x, -1)?; n.to::<BF16>()?.matmul(w)",
            "let n = x.softmax(-1)?; for _ in 0..3 { w.matmul(&n)?; } Ok(x.clone())",
            "let n = x.softmax(-1)?; let f = |y: &Tensor<F32>| y.matmul(&n); f(w)",
            "let n = if c { x.softmax(-1)? } else { return Ok(x.clone()) }; n.matmul(w)",
            "let n = x.softmax(-1)?; self.linear.forward(&n)",
            "let n = { let m = x.softmax(-1)?; m.relu()? }; self.linear.forward(&n)",
            "let mut n = x.softmax(-1)?; n = n.relu()?; n.matmul(w)",
            "let mut n = x.clone(); n = n.softmax(-1)?; n = n.matmul(w)?; n = n.tanh()?; Ok(n)",
            "let mut h = x.clone(); for _ in 0..3 { let mut n = h.softmax(-1)?; n = n.abs()?; h = n.matmul(w)?; } Ok(h)",
        ] {
            assert_eq!(written(body), 1, "{body}");
        }
        let both = "let a = x.softmax(-1)?; let b = if c { a } else { x.log_softmax(-1)? }; b.matmul(w)";
        assert_eq!(written(both), 2);
        assert_eq!(written("Tensor::cat(&[&x.softmax(-1)?, &x.log_softmax(-1)?], 0)?.matmul(w)"), 2);
    }

    #[test]
    fn what_somebody_needs_in_f32_is_not() {
        for body in [
            "x.softmax(-1)",
            "let n = x.softmax(-1)?; n.matmul(w)?; Ok(n)",
            "let n = x.softmax(-1)?; if c { return Ok(n); } n.matmul(w)",
            "let n = x.softmax(-1)?; n.matmul(w)? + n",
            "let n = x.softmax(-1)?; n.matmul(w)?; n.layer_norm([4], None, None, 1e-5)",
            "let n = x.softmax(-1)?; keep(&n); n.matmul(w)",
            "let n = x.softmax(-1)?; n.stored_dtype(); n.matmul(w)",
            "let n = x.softmax(-1)?; println!(\"{n:?}\"); n.matmul(w)",
            "let n = x.softmax(-1)?; unknown!(n); n.matmul(w)",
            "let n = x.softmax(-1)?; self.last = n.clone(); n.matmul(w)",
            "let n = x.softmax(-1)?; let s = Saved { n }; s.n.matmul(w)",
            "let n = x.softmax(-1)?; let (a, b) = (n, w); a.matmul(b)",
            "let n = x.softmax(-1)?; let f = move || n; f().matmul(w)",
            "let n = x.softmax(-1)?; n[0].matmul(w)",
            "let n = x.softmax(-1)?.tanh()?; n.matmul(w)",
            "let n = x.softmax(-1)?.max_pool2d(2)?; n.matmul(w)",
            "let n = x.softmax(-1)?; let y = amp_region!(f32, n.matmul(w)?); Ok(y)",
            "let n = x.softmax(-1)?; let y = amp_region!(f16, n.matmul(w)?); Ok(y)",
            "let n = if c { x.softmax(-1)? } else { x.clone() }; n.matmul(w)",
            "let n = x.softmax(-1)?; unknown.matmul(&n)",
            "let n = x.softmax(-1)?; self.linear().forward(&n)",
            "let n = x.softmax(-1)?; Ok(x.clone())",
            "let n = x.exp()?; n.matmul(w)",
            "let mut n = x.softmax(-1)?; if c { n = n.relu()?; } n.matmul(w)",
            "let mut n = x.clone(); if c { n = n.softmax(-1)?; } n.matmul(w)",
            "let mut n = x.clone(); for _ in 0..3 { n.matmul(w)?; n = n.softmax(-1)?; } Ok(n)",
            "let mut n = x.clone(); let b = c && { n = n.softmax(-1)?; true }; n.matmul(w)",
            "let mut n = x.softmax(-1)?; change(&mut n); n.matmul(w)",
            "let mut n = x.softmax(-1)?; n = n.tanh()?; n.matmul(w)",
            "let mut n = x.softmax(-1)?; n += w; n.matmul(w)",
        ] {
            assert_eq!(written(body), 0, "{body}");
        }
    }

    #[test]
    fn narrowing_what_was_written_narrow_costs_nothing() {
        let costed = |body: &str| -> Vec<String> {
            plan(body).iter().map(|row| row.rsplit(" | ").next().unwrap().trim_end_matches(" |").to_owned()).collect()
        };
        assert_eq!(costed("x.softmax(-1)?.matmul(w)"), ["0", "1"]);
        assert_eq!(costed("let n = x.softmax(-1)?.relu()?; n.matmul(w)?; n.t()?.matmul(w)"), ["0", "0", "1", "0", "0"]);
        assert_eq!(costed("let n = x.softmax(-1)?; self.linear.forward(&n)"), ["0", "0"]);
        // One of them may not narrow it, and then the other one pays.
        assert_eq!(costed("let n = x.softmax(-1)?; self.a.forward(&n)?; self.b.forward(&n)"), ["0", "1", "1"]);
        assert_eq!(costed("let n = x.softmax(-1)?; n.matmul(w)? + n"), ["0", "2", "0"]);
    }
}
