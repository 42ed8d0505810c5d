//! What `#[autocast]` decided, as data.
//!
//! Every annotated function registers its plan when it is compiled; a program reads the plans of all functions that were
//! linked into it. Nothing is executed on a function's behalf: a plan costs no time in the function it describes.
//!
//! # Limits
//! A function in a library appears when the linker keeps the object file it is in, that is when the program uses
//! something from there. The list is put together before `main`, on Linux, macOS, Windows and the BSDs.

use std::fmt;
use std::panic::Location;
use std::sync::OnceLock;

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
    /// Precision that goes out; `F32 as BF16` where an operation rounds its F32 result to BF16 as it writes it.
    pub output: &'static str,
    /// Casts at this call.
    pub casts: u32,
    /// How many of them cost something: narrowings that are made here and not shared with an earlier call. Those of a
    /// `module` are made if it is a `lower` one.
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
                "  {:>5}  {:<7} {:<14} -> {:<11} {:>2} casts, {:>2} costed  {}",
                op.line, op.class, op.input, op.output, op.casts, op.costed, op.source
            )?;
        }
        Ok(())
    }
}

/// A plan as expanded code registers it: one line of text an operation costs the compiler next to nothing.
#[derive(Debug)]
pub struct Registered {
    module: &'static str,
    function: Option<&'static str>,
    at: &'static Location<'static>,
    region: &'static str,
    rows: &'static str,
}

inventory::collect!(Registered);

impl Registered {
    /// The plan of a function, or of a region in `module`; `rows` are lines of the fields of [`OpPlan`] between tabs.
    #[track_caller]
    pub const fn new(
        module: &'static str,
        function: Option<&'static str>,
        region: &'static str,
        rows: &'static str,
    ) -> Self {
        Self { module, function, at: Location::caller(), region, rows }
    }

    fn plan(&self) -> Plan {
        let function = match self.function {
            Some(function) => format!("{}::{function}", self.module).leak(),
            None => self.module,
        };
        let ops: Vec<OpPlan> = self.rows.lines().map(row).collect();
        Plan { function, file: self.at.file(), line: self.at.line(), region: self.region, ops: ops.leak() }
    }
}

/// Reads a line; what it lacks is empty.
fn row(line: &'static str) -> OpPlan {
    let mut fields = line.split('\t');
    let mut text = || fields.next().unwrap_or_default();
    let (number, source, op, class) = (text(), text(), text(), text());
    let (input, output, casts, costed) = (text(), text(), text(), text());
    let number_of = |text: &str| text.parse().unwrap_or_default();
    OpPlan {
        line: number_of(number),
        source,
        op,
        class,
        input,
        output,
        casts: number_of(casts),
        costed: number_of(costed),
    }
}

/// The plans of all annotated functions in the program, by file and line.
pub fn all() -> Vec<&'static Plan> {
    static PLANS: OnceLock<Vec<Plan>> = OnceLock::new();
    let read = || {
        let mut plans: Vec<_> = inventory::iter::<Registered>.into_iter().map(Registered::plan).collect();
        plans.sort_by_key(|plan| (plan.file, plan.line));
        plans
    };
    PLANS.get_or_init(read).iter().collect()
}
