//! The part of an optimizer in the file: settings and learning rates of its groups, and the state of its parameters.
//!
//! A parameter that is in no model that the file holds, such as a temperature that is learned, has its value here.

use super::file::{Reader, bad, name_of};
use super::{Change, landing};
use crate::Result;
use crate::autograd::IdMap;
use crate::io::TensorFile;
use crate::nn::Staged;
use crate::optim::{ParameterGroups, SavedGroups, Setting, Settings, State};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use amp_cpu::{Dims, Storage};

pub(super) fn write_optimizer(
    file: &mut TensorFile,
    number: usize,
    groups: &mut ParameterGroups,
    names: &IdMap<String>,
) -> Result<()> {
    file.set_metadata(format!("optimizer.{number}"), groups.kind());
    let rates: Vec<f64> = groups.rates().into_iter().flatten().collect();
    let shape = Dims::new(&[rates.len() / 2, 2]).expect("two dimensions");
    let device = crate::Device::cpu();
    let rates = device.backend().upload(Storage::from(rates))?;
    file.insert_raw(format!("optimizer.{number}.learning_rates"), RawTensor::new(&device, rates, shape));
    for (g, settings) in groups.settings().into_iter().enumerate() {
        file.set_metadata(format!("optimizer.{number}.group.{g}"), text_of(settings));
    }
    for (i, p) in groups.parameters().to_vec().iter().enumerate() {
        let prefix = format!("optimizer.{number}.{}", name_of(p, i, names));
        if !names.contains_key(&p.id()) {
            file.insert_raw(format!("{prefix}.value"), p.tensor().raw.detached());
        }
        let Some(state) = groups.state().get(&p.id()) else { continue };
        let steps = RawTensor::new(p.device(), state.steps.clone(), Dims::new(&[1]).expect("one dimension"));
        file.insert_raw(format!("{prefix}.steps"), steps);
        for (kind, moment) in state.kinds.iter().zip(&state.moments) {
            let shape = *p.tensor().raw.shape();
            file.insert_raw(format!("{prefix}.moment.{kind}"), RawTensor::new(p.device(), moment.clone(), shape));
        }
    }
    Ok(())
}

/// Everything that a file says about an optimizer, as changes that are made once all is checked.
pub(super) fn read_optimizer<'c>(
    reader: &mut Reader<'_>,
    number: usize,
    groups: &'c mut ParameterGroups,
    names: &IdMap<String>,
) -> Result<Vec<Change<'c>>> {
    let prefix = format!("optimizer.{number}");
    let kind = reader.text(&prefix)?.to_owned();
    if kind != groups.kind() {
        return Err(bad(format!("`{prefix}` was saved by {kind}, not by {}", groups.kind())));
    }
    let rates = reader.rates(&format!("{prefix}.learning_rates"), groups.rates().len())?;
    // Older files have neither settings nor values of parameters that are in no model.
    let complete = reader.file.metadata(&format!("{prefix}.group.0")).is_some();
    let mut settings = groups.settings();
    if complete {
        for (g, settings) in settings.iter_mut().enumerate() {
            read_settings(reader, &format!("{prefix}.group.{g}"), settings)?;
        }
    }
    let (mut states, mut changes) = (IdMap::default(), Vec::new());
    for (i, p) in groups.parameters().iter().enumerate() {
        let prefix = format!("{prefix}.{}", name_of(p, i, names));
        if complete && !names.contains_key(&p.id()) {
            let value = Tensor::from_raw(reader.tensor(&format!("{prefix}.value"), p)?);
            changes.push(landing(Staged::Parameter(p.clone(), value)));
        }
        // A parameter that never had a gradient has no state.
        if reader.file.raw(&format!("{prefix}.steps")).is_none() {
            continue;
        }
        let steps = reader.steps(&format!("{prefix}.steps"), p)?;
        let kinds = groups.group_of(p).map_or(&[][..], |g| settings[g].rule.moments());
        let moments =
            kinds.iter().map(|kind| reader.moment(&format!("{prefix}.moment.{kind}"), p)).collect::<Result<_>>()?;
        states.insert(p.id(), State { kinds, moments, steps });
    }
    changes.push(Box::new(move || {
        groups.restore(SavedGroups { settings, rates, states });
        Ok(())
    }));
    Ok(changes)
}

/// A group's settings as text: `beta1=0.9 amsgrad=false`, with as many digits as it takes to read the same numbers.
fn text_of(mut settings: Settings) -> String {
    let mut texts = Vec::new();
    settings.visit(&mut |name, setting| {
        texts.push(match setting {
            Setting::Number(value) => format!("{name}={value:?}"),
            Setting::Count(value) => format!("{name}={value}"),
            Setting::Switch(value) => format!("{name}={value}"),
        });
    });
    texts.join(" ")
}

/// Settings from a text as [`text_of`] makes it; one that it does not have stays as it is.
fn read_settings(reader: &mut Reader<'_>, key: &str, settings: &mut Settings) -> Result<()> {
    let text = reader.text(key)?;
    for pair in text.split_whitespace() {
        let (wanted, value) = pair.split_once('=').unwrap_or((pair, ""));
        let mut read = None;
        settings.visit(&mut |name, setting| {
            if name == wanted {
                read = match setting {
                    Setting::Number(number) => value.parse().map(|v| *number = v).ok(),
                    Setting::Count(count) => value.parse().map(|v| *count = v).ok(),
                    Setting::Switch(switch) => value.parse().map(|v| *switch = v).ok(),
                };
            }
        });
        read.ok_or_else(|| bad(format!("`{key}` has `{wanted}` of `{value}`, which is no setting of this optimizer")))?;
    }
    settings.validate("load").map_err(|error| bad(format!("`{key}`: {error}")))
}
