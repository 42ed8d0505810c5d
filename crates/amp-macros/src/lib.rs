//! The macros of amp: `#[autocast]`, `amp_region!`, `#[amp_op]`, `amp_policy!`.
//!
//! One file a phase: `args` (grammar), `item` (what an attribute stands on), `rules` (the policy table and what the user
//! changed in it), `lattice`, `differ` and `scope` (what is known about values), `walk` (the interpreter that rewrites), `hoist`
//! (where narrowings are made), `flow` (which results are written narrow), `literal` (constants), `listed` (options without
//! effect), `emit` (tokens of casts), `plan` (what was decided), `expand`, `region`, `policy`, `amp_op` (entry points), `error`
//! (messages). `derive_module` stands apart: `#[derive(Module)]`.

#![forbid(unsafe_code)]

mod amp_op;
mod args;
mod budget;
mod changes;
mod derive_module;
mod differ;
mod emit;
mod error;
mod expand;
mod flow;
#[cfg(test)]
mod fuzz;
mod given;
mod hoist;
mod item;
mod lattice;
mod listed;
mod literal;
mod named;
mod numbers;
mod parens;
mod parts;
mod pin;
mod place;
mod plan;
mod policy;
mod region;
mod rules;
mod scope;
mod shape;
mod walk;

use proc_macro::TokenStream;

/// Runs a function in mixed precision, decided at compile time.
///
/// The first argument is the precision: `f16`, `bf16`, `f32` (everything in full precision), or a type parameter `P` of
/// the function, bound by `AutocastPrecision`. Operations follow the policy table: `lower` ones run in that precision,
/// `full` ones in F32, `widest` ones where their operands meet, `keep` ones in what they are given. Every call on a
/// tensor is cast by its type; methods of other types that share a name with an operation stay as they are.
///
/// ```
/// use amp::{nn::Linear, prelude::*};
///
/// #[autocast(f16)]
/// fn scores(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
///     fc.forward(x)?.relu()?.log_softmax(-1) // F16, F16, F32
/// }
///
/// /// The caller picks the precision, and whether it is used; a cast too many does not compile.
/// #[autocast(P, enabled = fast, full(gelu), max_casts = 2)]
/// fn hidden<P: AutocastPrecision>(x: &Tensor<F32>, w: &Tensor<F32>, fast: bool) -> Result<Tensor<F32>> {
///     x.matmul(w)?.gelu()
/// }
///
/// let device = Device::cpu();
/// let (x, w) = (Tensor::randn([8, 16], &device)?, Tensor::randn([16, 4], &device)?);
/// assert_eq!(scores(&Linear::new(16, 4, &device)?, &x)?.dims(), [8, 4]);
/// assert_eq!(hidden::<BF16>(&x, &w, false)?.to_vec()?, hidden::<F32>(&x, &w, true)?.to_vec()?);
/// println!("{}", amp::plan::all()[0]); // every operation with its precisions and casts
/// # Ok::<_, Error>(())
/// ```
///
/// | option | meaning |
/// |---|---|
/// | `enabled = expr` | a `bool` that picks, when the function is called, between this region and F32 |
/// | `full(op, ..)`, `lower(..)`, `widest(..)`, `keep(..)` | another class for these operations here |
/// | `force_lower(op, ..)` | a `full` operation on values rounded to the region's precision, its result rounded too |
/// | `skip(op, ..)` | calls of this name stay as written |
/// | `policy = path` | the rules of an `amp_policy!` |
/// | `max_casts = N` | an error when more than `N` casts of the function cost something; of modules, those of `lower` types |
/// | `crate = path` | where the library is, if not at `::amp` |
/// | `host = path` | a crate with run-time-typed tensors: operations without a policy do not compile |
///
/// A `full` operation whose result is only ever narrowed (a normalisation ahead of a linear layer, with or without a relu
/// between them) writes the narrow result itself: `F32 as F16` in the plan, and no cast behind it. A result that is
/// returned, stored, given to an unknown function or taken by an operation in F32 is written in F32.
///
/// `item` and `to_vec` read `f32` in a region, as they do in full precision.
///
/// The plan, one row an operation, is added to the function's documentation and listed by `amp::plan::all()`.
///
/// # Limits
/// - The classes listed on the attribute are those of operations that the function calls. Modules go by their own types:
///   `full(linear)` changes `x.linear(..)`, not `nn::Linear`, which runs in full precision in an `amp_region!(f32, ..)`.
/// - A cast of floats to F32 that is written holds for its value and for what moves, scales or activates its elements: a `lower`
///   operation that undoes it is an error. What it is joined with, or what a `full` operation makes of it, is a new value.
///   It holds too in the variable or the field that the value is assigned to, on any way that control may come by, and in the
///   list or the map that it is put into, for all that is taken out of that. What was not F32 before the cast may be narrowed
///   again in the next pass of a loop (`h = h.matmul(w)?.to::<F32>()?`), to what it was. What
///   one's own functions hand on is not seen, nor F32 by another name in the type of a variable (`let h: Tensor<Full> = x.to()?`).
/// - With `enabled` a function has two bodies. An `impl Fn(..)` or `impl Iterator` is of one type in the first and of another in
///   the second where a closure that captures something is in it: such a function returns a `Box<dyn Fn(..)>`. In one that is
///   generic over its precision `P` the second body has F32 in its place: what is declared in `P` (`let h: Tensor<P> = ..`,
///   `Option<LstmState<P>>`) is declared with `_`.
/// - Code inside macros other than those of `std` is not seen, nor that of a region within this one which has a `policy`: what it
///   assigns to a variable from outside has that variable's precision.
/// - A free function is taken for an operation by its name: one's own `softmax` gets its arguments cast as the operation
///   does, and `skip(softmax)` leaves its calls as written. One's own `binary_cross_entropy` is rejected, unless it is given
///   what is known to be a number: `skip(binary_cross_entropy)` lets it pass. Methods of these names go by the type they are of.
/// - A free function that is imported under another name (`use amp::functional::softmax as soft`) is a function like any
///   other: nothing is cast for it. One of class `keep` that is called by its bare name (`relu(&x)`) counts as one that needs
///   its argument in F32; the method and `functional::relu` do not.
/// - What trains is seen where it is named by its type (`let set = Parameter::set`), not by a trait (`Optimizer::step`).
/// - A module is called as a method: `Linear::forward(&self.fc, x)` is a function like any other, and runs in what `x` is.
/// - A module or a tensor behind a pointer type of one's own (`impl Deref`) runs in what it is given: `(*shared).forward(x)`
///   names what it points to.
/// - A variable that a closure captures is borrowed for a call that has an operation's name: a method of that name which is
///   no operation and takes `&mut self`, or `self` of a type that cannot be copied, needs `skip(name)` there.
/// - A closure that is kept for longer than a variable of a loop or a pattern that it names lives captures that variable, not
///   what it refers to: `for w in &self.all { calls.push(Box::new(move |x| x.matmul(w))) }` needs the `move`.
/// - What is given to a field, a container, a function or a module of one's own, or to a variable whose type is written
///   (`let h: Tensor<F32> = fc.forward(&x)?`), is widened where the type there says F32; it is never narrowed: a function that
///   takes the region's precision is given a value of it or `x.to::<F16>()?`, and `let h: Tensor<F16>` asserts that it is one.
/// - What a field of one's own holds (`g(&self.half)`) is given as it is, and two such fields meet beside an operator where
///   they are borrowed: `&self.half + &self.wide`. What operations make of them meets anyhow: `self.half.relu()? + self.wide.abs()?`.
/// - `model.load(..)` is an error in a region where its argument is a string, a variable or a parameter. A call whose argument
///   is computed (`path.join("m")`) or a constant is not seen, nor is a method of one's own that sets a parameter
///   (`self.adapt()?`): weights that were narrowed before it are used again behind it.
/// - Of what an `amp_region!` uses from outside, the types alone tell what it is. Where that is not enough, because a map or a cell
///   gives the other operand and only one of both is borrowed (`&all[&1] + x`), `&all[&1] + &*x` meets; a variable of the region
///   that such a value is assigned to is F32.
/// - The field of a state that a module gave has the region's precision (`state.h` of an `LstmState`): what is F32 does not go
///   into it, but into a new state, `LstmState { h: (&state.h * &keep)?, c: state.c }`.
/// - A list or an option that is lent (`&features`, `features.last()`) is widened where the type there says `&[Tensor<F32>]`
///   or `Option<&Tensor<F32>>`, and so is what a list of references begins with that is declared
///   (`let all: Vec<&Tensor<F32>> = hs.iter().collect()`), not what is pushed on it later. A tuple or an array of references is
///   widened where it is written (`block.forward((x, &h))`), not where a variable holds it.
/// - Nothing is widened where a bound alone says what is taken (`impl Extend<Tensor<F32>>`, `impl Into<Option<Tensor<F32>>>`,
///   `h.into()` or `Out::from(h)` by an `impl From<Tensor<F32>> for Out`), nor what is matched as `Cow` or `ControlFlow`, or
///   sent through a channel: write `h.to::<F32>()?`.
/// - A list holds the precision of what it is begun with, of what is made where it is put into it (`list.push(self.start())`),
///   and of what a method makes of it that it grows by (`features.push(block.forward(&features)?)`). One that other values of
///   both are pushed on is declared: `Vec<Tensor<F32>>`. What is assigned to its elements, by their index or through references
///   (`for h in &mut list { *h = norm.forward(h)? }`), makes it one of F32.
/// - F16 and BF16 become F32 in one list, or in one variable, where something else in it is F32, and in a variable that is
///   assigned what only the compiler knows (`sum = (sum + &self.half)?`, `h.unwrap_or_else(|| self.half.clone())`): what was
///   BF16 may overflow where a `lower` operation narrows it to F16.
/// - An iterator that a variable holds (`let outs = xs.iter().map(..)`) is widened as it is collected, where `Tensor<F32>` or a
///   name for it is the type of the elements, or of the tensors in a tuple of them. What it is collected into is written,
///   `let kept: Vec<_> = outs.collect()`, where a field of one's own is assigned it later; `collect()` in the field's place needs
///   nothing.
/// - A list of trait objects of several types that is written in a field of one's own (`Net { layers: vec![linear(x)?, norm(x)?] }`)
///   is declared before: `let layers: Vec<Box<dyn Layer>> = vec![..]`.
/// - A variable that is assigned what a function, a method of one's own or a module gives (`h = layer.forward(&h)?`), or what
///   lies in a field (`h = self.start.clone()`), holds F32, whatever that is, and so does what is unwrapped or else made
///   (`h.unwrap_or_else(|| self.start())`): a widened view, which is narrowed again for nothing, and whose sums are F32.
///   `let mut h: Tensor<F16> = ..` keeps it narrow.
/// - A module of one's own that is generic over its precision (`fn forward<P: AutocastPrecision>(&self, x: &Tensor<P>)`) runs in
///   that of what it is given: behind a norm this is F32, in any region. `self.block.forward(&h.to::<F16>()?)` runs it in
///   F16, `h.to::<P>()?` in the precision of a region that is generic itself.
/// - A method that an extension trait gives `Tensor<F32>` alone is not found on a result of the region's precision: write
///   `h.to::<F32>()?.method()`, or `impl<P: Float> Extension for Tensor<P>`.
/// - A constant beside what a module gives is judged when its type is known, in a region that is generic over its precision
///   when code is generated, and so is one that may depend on a parameter wherever it stands: it belongs to a type
///   (`Self::EPS`), its name is a single letter, it is made a float (`DIM as f64`), or it stands in a method beside a field or what
///   only the compiler knows (`self.width / HEADS`). `cargo check` does not see these.
/// - A size that is a parameter of a method's type (`const HEADS: usize`) does not stand beside what one's own function makes of a
///   tensor (`width(&x) / HEADS`), as a constant would: `let width: usize = width(&x)` goes before it.
/// - A number that the program computes is not judged: what a function gives (`eps()`, other than in `const { eps() }`), an
///   expression with a variable in it (`2.0 * eps`), what a block ends with, what a loop carries round, what a closure in a
///   variable is given (`shifted(1e-8)`), what a pattern takes out of a variant of one's own, an element of a list in which one
///   such stands. Literals are judged wherever one of several may arrive: `if fixed { 1e-8 } else { eps[0] }`,
///   `eps.unwrap_or(1e-8)`, `for mask in [0.0, -1e9]`; constants of one's own in branches and tuples are, too.
/// - A constant of one's own is known by the capitals of its name: one that is imported under another (`use config::EPS as eps`)
///   is a number that the program computes. So is an element or a field (`TABLE[0]`, `CONFIG.eps`), which a `static` may keep
///   behind a `LazyLock`: what a pattern takes apart is judged (`let (eps, _) = PAIR`, `let Norm { eps, .. } = Norm::DEFAULT`,
///   `if let Some(eps) = EPS`), as is `const { TABLE[0] }`. In a pattern a name is taken for a constant's in an arm of its own
///   that others follow (`EPS => h + EPS`), and wherever the function declares that constant.
/// - A constant of one's own that is no number is taken for one beside what the region does not know: `queue.add(PAD)` needs
///   `skip(add)`, `self.spent + BUDGET` a variable of that type, `let spent: Duration = self.spent`.
/// - A map that is extended with a list of pairs takes them as they are, as does one that is filled by `entry(..).or_insert_with(..)`:
///   `insert` and `or_insert` widen what goes into it. So does a list behind a guard (`list.borrow_mut().extend(..)`): `push` widens.
/// - Results of two methods of one's own that are generic over the precision (`a.swish()? + b.swish()?`) meet where they are
///   borrowed: `&a.swish()? + &b.swish()?`. So do those of two threads (`let (a, b) = (a.join()??, b.join()??)`): `&a + &b`.
/// - An operator of a type of one's own and a tensor (`gain * &h` by an `impl Mul<&Tensor<F32>> for Gain`) is given the tensor as it
///   is, and so is a method of a number (`2f64.sub(&h)`): write `gain * &h.to::<F32>()?`, `2.0 - &h`. What is behind `+=` is widened.
/// - What a closure gives by `return` is not joined with what it gives at its end, unless its type is written out
///   (`|x| -> Result<Tensor<F32>> { .. }`): then both are widened.
/// - A list that is made empty and filled with pairs is widened where it leaves by its own name for a type that is written
///   out (`Vec<(usize, Tensor<F32>)>`), not for one that has another name.
/// - A tensor's type by another name (`type T = Tensor<F32>`) says less: what a function of one's own or a method that is no
///   operation gives is widened where `Tensor<F32>` is written out.
/// - A variable that is lent exclusively to a function or a method of one's own (`rescale(&mut h)?`) or swapped with a field holds
///   F32, and so does what a `RefCell`, a `Mutex` or an `RwLock` of a variable begins with. `let mut h: Tensor<F16> = ..` and
///   `let state: RefCell<Tensor<F16>> = ..` keep them narrow.
/// - `use amp::Tensor as T` hides what is called by a path: `T::matmul(&x, &w)` is a function like any other, which runs in the
///   precision of what it is given. Methods are seen by any name.
/// - An operation that a variable names (`let act = Tensor::exp; act(&h)`) takes its first argument's precision: write
///   `let act: fn(&Tensor<F32>) -> Result<Tensor<F32>> = Tensor::exp`.
/// - A closure in a field whose bound stands on an `impl` alone says what it returns itself:
///   `Layer { f: |x: &Tensor<F32>| -> Result<Tensor<F32>> { x.matmul(w) } }`.
/// - Alternatives of a pattern that bind a name at places of two precisions (`(Some(h), _) | (None, h)`) are two arms.
/// - With `enabled`, a `static` in a block within the body is there once for each of the two bodies; one of the body itself is
///   shared. An `impl` for a type from outside stands in the body itself, too: in a block within it, it would be there twice.
/// - A tensor that is made without a type (`Tensor::randn(..)?`) is F32 where others meet it, as PyTorch's is, and where a sum that
///   is assigned to its variable does (`sum = (sum + fc.forward(x)?)?`). In a variable that is assigned anything else, behind `+=`,
///   or given to a function of one's own, it is what is asked for there.
/// - An option that starts as `None`, or a list of such, holds F32 if what it is given is a function's or a module's, unless
///   one call of a method (`insert`, `replace`) or one index puts all of it in. What it holds is a tuple, or goes to a module
///   behind its first input, only where its type is written: `let mut state: Option<Tensor<F32>> = None`.
/// - A closure's parameter without a type goes to operations, and to modules as their first input. One that meets what a module
///   gave (`y + h`) needs a type.
/// - Fields of a struct of one's own that share a type parameter have the precision of the first: write `y.to::<F32>()?`.
#[proc_macro_attribute]
pub fn autocast(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::autocast(args.into(), item.into()).into()
}

/// Runs a block or an expression in mixed precision: `amp_region!(f16, { .. })`.
///
/// Options are those of `#[autocast]` and come before the body. `?`, `return`, `break` and borrows keep their meaning; what is
/// returned is widened where the function declares F32.
/// `amp_region!(f32, ..)` inside a region switches it off; what comes out of it is never narrowed again silently. Outside of a
/// region its value has the precision that its last operation gives: `amp_region!(f16, { x.matmul(&w)? })` is F16, and
/// `amp_region!(f16, { x.matmul(&w)? }).to::<F32>()?` widens it.
///
/// ```
/// use amp::prelude::*;
///
/// let w = Tensor::<F32>::ones([4, 4], &Device::cpu())?;
/// let y: Tensor<F32> = amp_region!(bf16, {
///     let h = w.matmul(&w)?;
///     amp_region!(f32, { h.exp()? + 1e-9 })?
/// });
/// # assert_eq!(y.dims(), [4, 4]);
/// # Ok::<_, Error>(())
/// ```
#[proc_macro]
pub fn amp_region(input: TokenStream) -> TokenStream {
    region::amp_region(input.into()).into()
}

/// Declares the class of a function or method of one's own: `#[amp_op(full)]`, `lower`, `widest` or `keep`.
///
/// The signature is held against the class, the body is no region, and the class is added to the documentation. Regions
/// whose policy or attribute lists the function cast the arguments of its calls (PyTorch's `custom_fwd(cast_inputs=..)`).
///
/// ```
/// use amp::prelude::*;
///
/// #[amp_op(full)]
/// fn root_mean_square(x: &Tensor<F32>) -> Result<Tensor<F32>> {
///     x.sqr()?.mean_all()?.sqrt()
/// }
///
/// #[autocast(f16, full(root_mean_square))]
/// fn normalized(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
///     let h = x.matmul(w)?;
///     h / root_mean_square(&h)? // given F16, which is widened for it
/// }
/// # let x = Tensor::ones([2, 2], &Device::cpu())?;
/// # assert_eq!(normalized(&x, &x)?.to_vec()?, [1.0; 4]);
/// # Ok::<_, Error>(())
/// ```
#[proc_macro_attribute]
pub fn amp_op(args: TokenStream, item: TokenStream) -> TokenStream {
    amp_op::amp_op(args.into(), item.into()).into()
}

/// Defines a reusable policy: `amp_policy! { pub name { full: [gelu], lower: [my_op] } }`.
///
/// It is used as `#[autocast(f16, policy = path::to::name)]`, in other modules and, when it is `pub`, in other crates.
///
/// ```
/// use amp::prelude::*;
///
/// amp_policy! {
///     /// Products stay in F32 where they end in a loss.
///     pub careful { full: [matmul, gelu] }
/// }
///
/// #[autocast(f16, policy = careful)]
/// fn head(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
///     x.matmul(w)?.gelu()
/// }
/// # let x = Tensor::ones([2, 2], &Device::cpu())?;
/// # assert_eq!(head(&x, &x)?.dims(), [2, 2]);
/// # Ok::<_, Error>(())
/// ```
#[proc_macro]
pub fn amp_policy(input: TokenStream) -> TokenStream {
    policy::amp_policy(input.into()).into()
}

/// What a policy macro expands an annotated function with.
#[doc(hidden)]
#[proc_macro]
pub fn autocast_with(input: TokenStream) -> TokenStream {
    expand::autocast_with(input.into()).into()
}

/// What a policy macro expands a region with.
#[doc(hidden)]
#[proc_macro]
pub fn region_with(input: TokenStream) -> TokenStream {
    region::region_with(input.into()).into()
}

/// Implements `amp::nn::Module`: named parameters, running statistics, nested modules, train/eval mode.
///
/// Every field whose type implements `Module` belongs to the model: layers, parameters, other models, and Vec, Option,
/// Box, Arc, arrays and tuples of them. Other fields (sizes, names, constant tensors) are passed over; one that has parameters
/// in it and is no module does not compile, other than behind a `Box`, an `Arc` or a reference, through which nothing is
/// seen. A type parameter that is a field, or that one of these holds, must be a module; behind a type of one's own
/// (`inner: Inner<M>`) it is one only where `M: Module` is written.
///
/// ```
/// use amp::{nn::Linear, prelude::*};
///
/// #[derive(Module)]
/// struct Mlp {
///     layers: Vec<Linear>,
///     #[module(name = "classifier")]
///     head: Linear,
///     classes: usize,
/// }
///
/// let device = Device::cpu();
/// let layers = vec![Linear::new(8, 8, &device)?, Linear::new(8, 8, &device)?];
/// let mlp = Mlp { layers, head: Linear::new(8, 2, &device)?, classes: 2 };
/// assert_eq!(mlp.parameters().len(), 6);
/// assert_eq!(mlp.parameters()[4].name(), "classifier.weight");
/// # assert_eq!(mlp.classes, 2);
/// # Ok::<_, Error>(())
/// ```
///
/// `#[module(skip)]` leaves a field out and `#[module(name = "..")]` renames it, as in a file from elsewhere;
/// `#[module(crate = path)]` on the type names the crate where it is not called `amp`.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    derive_module::expand(syn::parse_macro_input!(input)).into()
}
