//! What `#[autocast]` decided, as data.
//!
//! Every annotated function registers its plan when it is compiled; a program reads the plans of all functions that were
//! linked into it. Nothing is executed on a function's behalf: a plan costs no time in the function it describes.
//!
//! # Limits
//! A function in a library appears when the linker keeps the object file it is in, that is when the program uses
//! something from there. The list is put together before `main`, on Linux, macOS, Windows and the BSDs.

use std::fmt;

/// The plan of one annotated function or region.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Module path and name.
    pub function: &'static str,
    /// Source file.
    pub file: &'static str,
    /// Line of the attribute or region.
    pub line: u32,
    /// The region's precision: `f16`, `bf16`, `f32` or a type parameter.
    pub region: &'static str,
    /// The operations in source order.
    pub ops: &'static [OpPlan],
}

/// The plan of one operation.
#[derive(Clone, Copy, Debug)]
pub struct OpPlan {
    /// Source line.
    pub line: u32,
    /// The call as written.
    pub source: &'static str,
    /// The operation.
    pub op: &'static str,
    /// Its class: `lower`, `full`, `widest`, `keep`, or `module` when the module's type decides.
    pub class: &'static str,
    /// Precisions of the tensors that come in; `?` where the types decide.
    pub input: &'static str,
    /// Precision that goes out.
    pub output: &'static str,
    /// Casts at this call.
    pub casts: u32,
    /// How many of them cost something: narrowings that are made here and not shared with an earlier call.
    pub costed: u32,
}

impl Plan {
    /// Casts in the whole function that cost something.
    pub fn costed_casts(&self) -> u32 {
        self.ops.iter().map(|op| op.costed).sum()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({}), {}:{}", self.function, self.region, self.file, self.line)?;
        for op in self.ops {
            writeln!(
                f,
                "  {:>5}  {:<7} {:<14} -> {:<5} {:>2} casts, {:>2} costed  {}",
                op.line, op.class, op.input, op.output, op.casts, op.costed, op.source
            )?;
        }
        Ok(())
    }
}

inventory::collect!(Plan);

/// The plans of all annotated functions in the program, by file and line.
pub fn all() -> Vec<&'static Plan> {
    let mut plans: Vec<_> = inventory::iter::<Plan>.into_iter().collect();
    plans.sort_by_key(|plan| (plan.file, plan.line));
    plans
}
