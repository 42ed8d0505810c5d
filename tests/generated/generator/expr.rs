//! Expressions: what is written in a region, and what it takes to write the same by hand.

use std::cell::{Cell, RefCell};

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// An expression over the variables in scope.
    pub fn expr(&mut self, scope: &Scope, depth: usize) -> Expr {
        if depth == 0 {
            return Expr::Var(self.below(scope.vars.len()));
        }
        let inner = |random: &mut Self| Box::new(random.expr(scope, depth - 1));
        match self.below(10) {
            0 | 1 => Expr::Lower(self.below(2) == 0, inner(self), inner(self)),
            2 => Expr::Full(
                self.pick(&[
                    "softmax(-1)",
                    "log_softmax(-1)",
                    "layer_norm([4], None, None, 1e-5)",
                    "softplus()",
                    "cumsum(-1)",
                ]),
                inner(self),
            ),
            3 | 4 => Expr::Widest(self.pick(&["+", "-", "*", "add", "mul", "maximum"]), inner(self), inner(self)),
            5 | 6 => Expr::Keep(self.pick(KEEPING), inner(self)),
            7 => Expr::Around(self.pick(&[("(", " * 0.5)?"), ("(1.5 - ", ")?"), ("(-", ")?")]), inner(self)),
            8 => Expr::Cat(inner(self), inner(self)),
            _ => Expr::Var(self.below(scope.vars.len())),
        }
    }
}

/// Operations that keep the precision, and the shape of 4 by 4.
const KEEPING: &[&str] = &[
    "relu()",
    "tanh()",
    "abs()",
    "neg()",
    "t()",
    "gelu()",
    "mul(0.5)",
    "clamp(-1.0, 1.0)",
    "reshape([4, 4])",
    "transpose(0, 1)",
    "flip(0)",
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Prec {
    Half,
    F32,
}

impl Prec {
    pub fn join(self, other: Self) -> Self {
        if self == other { self } else { Self::F32 }
    }
}

#[derive(Clone)]
pub enum Expr {
    Var(usize),
    /// `matmul`, as a function of a path or as a method.
    Lower(bool, Box<Expr>, Box<Expr>),
    Full(&'static str, Box<Expr>),
    Widest(&'static str, Box<Expr>, Box<Expr>),
    Keep(&'static str, Box<Expr>),
    /// An operator beside a number, which keeps the precision.
    Around((&'static str, &'static str), Box<Expr>),
    /// Rows of both.
    Cat(Box<Expr>, Box<Expr>),
}

/// The same piece of code in a region and by hand.
#[derive(Clone, Default)]
pub struct Twin {
    pub region: String,
    pub by_hand: String,
}

impl Twin {
    pub fn push(&mut self, more: &Self) {
        self.region.push_str(&more.region);
        self.by_hand.push_str(&more.by_hand);
    }

    /// The same text around both.
    pub fn of(build: impl Fn(&dyn Fn(&Self) -> String) -> String) -> Self {
        Self { region: build(&|part| part.region.clone()), by_hand: build(&|part| part.by_hand.clone()) }
    }
}

/// A variable, and how often it was narrowed.
#[derive(Clone)]
pub struct Var {
    pub name: String,
    pub prec: Prec,
    /// Only its type tells that it is not F32: a variable that it is assigned to holds F32.
    pub open: bool,
}

/// Variables in scope.
pub struct Scope {
    pub half: &'static str,
    pub vars: Vec<Var>,
    pub next: usize,
    /// Inside a region that is switched off.
    pub full: bool,
    narrowed: RefCell<Vec<String>>,
    pub in_loop: bool,
    /// Bodies around this one.
    pub depth: usize,
    /// Whether the statement has a value that is open.
    pub open: Cell<bool>,
}

impl Scope {
    pub fn new(half: &'static str) -> Self {
        let vars = ["a", "b", "c"].map(|name| Var { name: name.into(), prec: Prec::F32, open: false }).to_vec();
        Self {
            half,
            vars,
            next: 0,
            full: false,
            narrowed: RefCell::default(),
            in_loop: false,
            depth: 0,
            open: Cell::new(false),
        }
    }

    pub fn fresh(&mut self) -> String {
        self.next += 1;
        format!("v{}", self.next)
    }

    pub fn declare(&mut self, name: &str, prec: Prec) {
        let open = prec == Prec::Half && self.open.get();
        self.vars.push(Var { name: name.into(), prec, open });
    }

    /// Declares what the macro knows by its type alone.
    pub fn declare_open(&mut self, name: &str, prec: Prec) {
        self.vars.push(Var { name: name.into(), prec, open: prec == Prec::Half });
    }

    /// Whether only its type tells that an expression is not F32.
    pub fn is_open(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Var(var) => self.vars[*var].open,
            Expr::Lower(..) | Expr::Full(..) => false,
            Expr::Widest(_, a, b) | Expr::Cat(a, b) => self.is_open(a) || self.is_open(b),
            Expr::Keep(_, a) | Expr::Around(_, a) => self.is_open(a),
        }
    }

    pub fn ty(&self, prec: Prec) -> &'static str {
        if prec == Prec::F32 { "F32" } else { self.half }
    }

    pub fn narrowed_at_most_once(&self) -> bool {
        let mut all = self.narrowed.borrow().clone();
        let count = all.len();
        all.sort();
        all.dedup();
        all.len() == count
    }

    fn note(&self, expr: &Expr) {
        let mut narrowed = self.narrowed.borrow_mut();
        if let Expr::Var(var) = expr {
            // What a loop narrows in every turn is narrowed before it in the region.
            let times = if self.in_loop { 2 } else { 1 };
            narrowed.extend(std::iter::repeat_n(self.vars[*var].name.clone(), times));
        }
    }

    /// The precision of an expression.
    pub fn prec(&self, expr: &Expr) -> Prec {
        match expr {
            Expr::Var(var) => self.vars[*var].prec,
            Expr::Lower(..) if self.full => Prec::F32,
            Expr::Lower(..) => Prec::Half,
            Expr::Full(..) => Prec::F32,
            Expr::Widest(_, a, b) | Expr::Cat(a, b) => self.prec(a).join(self.prec(b)),
            Expr::Keep(_, a) | Expr::Around(_, a) => self.prec(a),
        }
    }

    /// An owned tensor; `to` is the precision that its place has.
    pub fn render(&self, expr: &Expr, to: Option<Prec>) -> (Twin, Prec) {
        self.open.set(self.open.get() || self.is_open(expr));
        let twin = match expr {
            Expr::Var(var) => {
                let name = self.vars[*var].name.clone();
                let region = format!("{name}.clone()");
                let by_hand = if to.is_some_and(|to| to != self.prec(expr)) { name } else { region.clone() };
                Twin { region, by_hand }
            }
            Expr::Lower(path, a, b) => {
                let lower = if self.full { Prec::F32 } else { Prec::Half };
                let (a, b) = (self.operand(a, lower), self.operand(b, lower));
                Twin::of(|of| match path {
                    true => format!("Tensor::matmul({}, {})?", borrowed(&of(&a)), borrowed(&of(&b))),
                    false => format!("{}.matmul({})?", of(&a), borrowed(&of(&b))),
                })
            }
            Expr::Full(op, a) => {
                let a = self.operand(a, Prec::F32);
                Twin::of(|of| format!("{}.{op}?", of(&a)))
            }
            Expr::Widest(op, a, b) => {
                let meet = self.prec(expr);
                let (a, b) = (self.operand(a, meet), self.operand(b, meet));
                Twin::of(|of| match op.len() {
                    1 => format!("({} {op} {})?", borrowed(&of(&a)), borrowed(&of(&b))),
                    _ => format!("{}.{op}({})?", of(&a), borrowed(&of(&b))),
                })
            }
            Expr::Keep(op, a) => {
                let a = self.operand(a, self.prec(a));
                Twin::of(|of| format!("{}.{op}?", of(&a)))
            }
            Expr::Around((before, after), a) => {
                let a = self.operand(a, self.prec(a));
                Twin::of(|of| format!("{before}{}{after}", borrowed(&of(&a))))
            }
            Expr::Cat(a, b) => {
                let meet = self.prec(expr);
                let (a, b) = (self.operand(a, meet), self.operand(b, meet));
                Twin::of(|of| {
                    format!("Tensor::cat(&[{}, {}], 0)?.narrow(0, 2, 4)?", borrowed(&of(&a)), borrowed(&of(&b)))
                })
            }
        };
        let prec = self.prec(expr);
        match to {
            Some(to) if to != prec => (self.cast(twin, to), to),
            _ => (twin, prec),
        }
    }

    pub fn cast(&self, twin: Twin, to: Prec) -> Twin {
        Twin { by_hand: format!("{}.to::<{}>()?", twin.by_hand, self.ty(to)), ..twin }
    }

    /// As it stands before a dot or behind `&`.
    pub fn operand(&self, expr: &Expr, to: Prec) -> Twin {
        let prec = self.prec(expr);
        if to == Prec::Half && prec == Prec::F32 {
            self.note(expr);
        }
        let twin = match expr {
            Expr::Var(var) => {
                let name = self.vars[*var].name.clone();
                Twin { region: name.clone(), by_hand: name }
            }
            _ => self.render(expr, None).0,
        };
        if prec == to { twin } else { self.cast(twin, to) }
    }
}

/// Parameters are references already.
pub fn borrowed(text: &str) -> String {
    if matches!(text, "a" | "b" | "c" | "t") { text.into() } else { format!("&{text}") }
}
