//! Every operation against values that PyTorch 2.15 computed (`generate.py` beside this file says how).
//!
//! Each case of `torch.safetensors` runs twice: with contiguous inputs, and with inputs that are strided views at an
//! offset into memory full of NaN. A case of the file that nothing here runs is a failure.

mod case;
mod elementwise;
mod layers;
mod losses;
mod modules;
mod products;
mod reductions;
mod shapes;
mod training;

use amp::prelude::{Device, Result};
use case::{Case, Memory, Outs, Tolerance};
use safetensors::SafeTensors;
use serde_json::{Map, Value};

const FILE: &[u8] = include_bytes!("torch.safetensors");

/// The CPU, or the first GPU if `AMP_REQUIRE_CUDA` is set.
fn device() -> Device {
    match std::env::var_os("AMP_REQUIRE_CUDA") {
        Some(_) => Device::cuda(0).expect("the required GPU"),
        None => Device::cpu(),
    }
}

fn cases() -> (SafeTensors<'static>, Map<String, Value>) {
    let (_, header) = SafeTensors::read_metadata(FILE).expect("the file has a header");
    let metadata = header.metadata().as_ref().expect("the file has metadata");
    let cases = serde_json::from_str(&metadata["cases"]).expect("the cases are a JSON object");
    (SafeTensors::deserialize(FILE).expect("a safetensors file"), cases)
}

/// The tables, each of the file of the same name beside it; the Python file of that name wrote the cases.
type Table = fn(&str, &Case) -> Result<Option<(Tolerance, Outs)>>;
const TABLES: &[Table] = &[
    elementwise::apply,
    layers::apply,
    losses::apply,
    modules::apply,
    products::apply,
    reductions::apply,
    shapes::apply,
    training::apply,
];

fn apply(case: &Case) -> Result<Option<(Tolerance, Outs)>> {
    TABLES.iter().find_map(|table| table(case.op(), case).transpose()).transpose()
}

#[test]
fn operations_agree_with_pytorch() {
    let (file, cases) = cases();
    let mut failures = Vec::new();
    for (name, options) in &cases {
        for memory in [Memory::Contiguous, Memory::Strided] {
            let case = Case::new(name, options, &file, memory);
            let verdict = match apply(&case) {
                Ok(Some((tolerance, outs))) => case.check(&outs, tolerance),
                Ok(None) => Err("nothing runs this operation".into()),
                Err(error) => Err(error.to_string()),
            };
            if let Err(text) = verdict {
                failures.push(format!("{name} ({memory:?}): {text}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}
