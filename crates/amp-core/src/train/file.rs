//! What stands in the file, and how it is checked.

use super::optimizers::{read_optimizer, write_optimizer};
use super::{Change, TrainState, assigning, landing};
use crate::autograd::IdMap;
use crate::backend::Buffer;
use crate::io::TensorFile;
use crate::nn::{Module, check_paths, stage};
use crate::optim::{Ema, ParameterGroups, PlateauState};
use crate::param::Parameter;
use crate::raw::RawTensor;
use crate::{Error, RandomState, Result, ScalerState, random_state, set_random_state};
use amp_cpu::Storage;
use std::collections::HashSet;
use std::path::Path;

const VERSION: &str = "1";
const CHECKSUM: &str = "amp.checksum";

impl TrainState<'_> {
    pub(super) fn write(&mut self) -> Result<TensorFile> {
        let mut file = TensorFile::new();
        let names = names(&self.models);
        for (m, model) in self.models.iter().enumerate() {
            check_paths("save", *model)?;
            let state = model.state();
            for name in state.names() {
                file.insert_raw(format!("model.{m}.{name}"), state.raw(name).expect("a name of its own").clone());
            }
        }
        for (o, optimizer) in self.optimizers.iter_mut().enumerate() {
            write_optimizer(&mut file, o, groups(*optimizer)?, &names)?;
        }
        for (e, average) in self.averages.iter_mut().enumerate() {
            write_average(&mut file, e, average, &names)?;
        }
        for (s, scaler) in self.scalers.iter().enumerate() {
            let state = scaler.state()?.map_or("{}".into(), |state| state.to_json());
            file.set_metadata(format!("scaler.{s}"), state);
        }
        for (s, schedule) in self.schedules.iter().enumerate() {
            file.set_metadata(format!("schedule.{s}"), schedule.steps().to_string());
            file.set_metadata(format!("schedule.{s}.kind"), schedule.kind());
        }
        for (p, plateau) in self.plateaus.iter().enumerate() {
            file.set_metadata(format!("plateau.{p}"), plateau.to_text());
        }
        let RandomState { seed, offset } = random_state();
        file.set_metadata("random", format!("{seed} {offset}"));
        for (c, counter) in self.counters.iter().enumerate() {
            file.set_metadata(format!("counter.{c}"), counter.to_string());
        }
        file.set_metadata("amp.format", "train-state");
        file.set_metadata("amp.version", VERSION);
        let checksum = file.checksum(CHECKSUM)?;
        file.set_metadata(CHECKSUM, format!("{checksum:016x}"));
        Ok(file)
    }

    pub(super) fn read(&mut self, file: &TensorFile) -> Result<()> {
        verify(file)?;
        let names = names(&self.models);
        let mut reader = Reader { file, used: HashSet::new() };
        let mut changes: Vec<Change<'_>> = Vec::new();
        for (m, model) in self.models.iter().enumerate() {
            let staged = stage(*model, file, &format!("model.{m}."), &mut reader.used)?;
            changes.extend(staged.into_iter().map(landing));
        }
        for (o, optimizer) in self.optimizers.iter_mut().enumerate() {
            changes.extend(read_optimizer(&mut reader, o, groups(*optimizer)?, &names)?);
        }
        for (e, average) in self.averages.iter_mut().enumerate() {
            changes.extend(read_average(&mut reader, e, average, &names)?);
        }
        for (s, scaler) in self.scalers.iter_mut().enumerate() {
            let text = reader.text(&format!("scaler.{s}"))?;
            // A disabled scaler saves nothing; one that is enabled now starts from its own settings.
            if scaler.is_enabled() && text != "{}" {
                let state = ScalerState::from_json(text)?;
                scaler.check_state(&state)?;
                changes.push(Box::new(move || scaler.load_state(&state)));
            }
        }
        for (s, schedule) in self.schedules.iter_mut().enumerate() {
            let key = format!("schedule.{s}");
            let steps = reader.number(&key)?;
            reader.kind(&key, &schedule.kind())?;
            changes.push(Box::new(move || {
                schedule.set_steps(steps);
                Ok(())
            }));
        }
        for (p, plateau) in self.plateaus.iter_mut().enumerate() {
            let state = reader.plateau(&format!("plateau.{p}"))?;
            changes.push(Box::new(move || {
                plateau.set_state(state);
                Ok(())
            }));
        }
        for (c, counter) in self.counters.iter_mut().enumerate() {
            changes.push(assigning(*counter, reader.number(&format!("counter.{c}"))?));
        }
        let random = reader.random()?;
        reader.finish()?;
        changes.into_iter().try_for_each(|change| change())?;
        set_random_state(random);
        Ok(())
    }
}

/// Format, version and checksum.
fn verify(file: &TensorFile) -> Result<()> {
    let line = |key| file.metadata(key).unwrap_or("none");
    if line("amp.format") != "train-state" {
        return Err(bad("this is not a training state; weights alone are read with `Module::load`"));
    }
    if line("amp.version") != VERSION {
        return Err(bad(format!("its version is {}, this library reads version {VERSION}", line("amp.version"))));
    }
    if line(CHECKSUM) != format!("{:016x}", file.checksum(CHECKSUM)?) {
        return Err(bad("the file is damaged: its checksum does not match its contents"));
    }
    Ok(())
}

pub(super) fn bad(reason: impl Into<String>) -> Error {
    Error::Format { op: "load", path: Path::new("").into(), reason: reason.into() }
}

/// An error about the contents of a file, with the file's name in it.
pub(super) fn named(error: Error, path: &Path) -> Error {
    match error {
        Error::Format { op, reason, .. } => Error::Format { op, path: path.into(), reason },
        other => other,
    }
}

/// Paths of all parameters of all models.
fn names(models: &[&dyn Module]) -> IdMap<String> {
    let mut names = IdMap::default();
    for (m, model) in models.iter().enumerate() {
        for (name, p) in model.named_parameters() {
            names.entry(p.id()).or_insert(format!("{m}.{name}"));
        }
    }
    names
}

/// The path of a parameter; for one that is in no model, its number in the optimizer or average.
pub(super) fn name_of(p: &Parameter, number: usize, names: &IdMap<String>) -> String {
    names.get(&p.id()).cloned().unwrap_or_else(|| format!("parameter.{number}"))
}

fn groups(optimizer: &mut dyn crate::optim::Optimizer) -> Result<&mut ParameterGroups> {
    let expected = "one of the library's (save the state of your own in a file of its own)";
    optimizer.groups().ok_or_else(|| Error::argument("TrainState", "an optimizer", expected, "one of your own"))
}

fn write_average(file: &mut TensorFile, number: usize, average: &mut Ema, names: &IdMap<String>) -> Result<()> {
    average.check_in_training("save")?;
    let parameters = average.parameters().to_vec();
    for (i, (p, value)) in parameters.iter().zip(average.averages()).enumerate() {
        file.insert_raw(format!("ema.{number}.{}", name_of(p, i, names)), value.detached());
    }
    Ok(())
}

fn read_average<'c>(
    reader: &mut Reader<'_>,
    number: usize,
    average: &'c mut Ema,
    names: &IdMap<String>,
) -> Result<Vec<Change<'c>>> {
    average.check_in_training("load")?;
    let parameters = average.parameters().to_vec();
    let slots = parameters.iter().enumerate().zip(average.averages());
    let change = |((i, p), slot)| {
        let value = reader.tensor(&format!("ema.{number}.{}", name_of(p, i, names)), p)?;
        Ok(assigning(slot, value))
    };
    slots.map(change).collect()
}

/// A file, and the names that were read from it so far.
pub(super) struct Reader<'f> {
    pub(super) file: &'f TensorFile,
    used: HashSet<String>,
}

impl<'f> Reader<'f> {
    pub(super) fn text(&mut self, key: &str) -> Result<&'f str> {
        self.used.insert(key.to_owned());
        self.file.metadata(key).ok_or_else(|| bad(format!("it says nothing about `{key}`")))
    }

    fn number(&mut self, key: &str) -> Result<u64> {
        let text = self.text(key)?;
        text.parse().map_err(|_| bad(format!("`{key}` should be a number and is `{text}`")))
    }

    /// What was saved as `key` must be of this kind, where the file tells kinds.
    fn kind(&mut self, key: &str, kind: &str) -> Result<()> {
        let told = format!("{key}.kind");
        match self.file.metadata(&told) {
            Some(_) if self.text(&told)? != kind => {
                Err(bad(format!("`{key}` was saved by {}, not by {kind}", self.text(&told)?)))
            }
            _ => Ok(()),
        }
    }

    fn plateau(&mut self, key: &str) -> Result<PlateauState> {
        let text = self.text(key)?;
        let reason = || bad(format!("`{key}` should be a factor, a measure and two numbers and is `{text}`"));
        PlateauState::from_text(text).ok_or_else(reason)
    }

    fn random(&mut self) -> Result<RandomState> {
        let text = self.text("random")?;
        let numbers = text.split_once(' ').and_then(|(s, o)| Some((s.parse().ok()?, o.parse().ok()?)));
        let (seed, offset) = numbers.ok_or_else(|| bad(format!("`random` should be two numbers and is `{text}`")))?;
        Ok(RandomState { seed, offset })
    }

    fn raw(&mut self, name: &str) -> Result<&'f RawTensor> {
        self.used.insert(name.to_owned());
        let missing = || Error::State { op: "load", name: name.into(), reason: "the file has no such tensor".into() };
        self.file.raw(name).ok_or_else(missing)
    }

    /// An F32 tensor of the shape and on the device of `p`, in memory of its own.
    pub(super) fn tensor(&mut self, name: &str, p: &Parameter) -> Result<RawTensor> {
        let raw = self.raw(name)?;
        let wanted = *p.tensor().raw.shape();
        let (found, dtype) = (*raw.shape(), raw.logical);
        if found != wanted || dtype != amp_cpu::DType::F32 {
            let reason =
                format!("F32 of shape {wanted:?} is needed, the file holds {} of shape {found:?}", dtype.name());
            return Err(Error::State { op: "load", name: name.into(), reason });
        }
        let buffer = p.device().backend().upload(raw.to_storage()?)?;
        Ok(RawTensor::new(p.device(), buffer, wanted))
    }

    pub(super) fn moment(&mut self, name: &str, p: &Parameter) -> Result<Buffer> {
        Ok(self.tensor(name, p)?.value.buffer.clone())
    }

    pub(super) fn steps(&mut self, name: &str, p: &Parameter) -> Result<Buffer> {
        match self.raw(name)?.to_storage()? {
            Storage::I64(steps) if steps.len() == 1 && steps[0] >= 0 => {
                p.device().backend().upload(Storage::I64(steps))
            }
            _ => {
                let reason = "one I64 of at least 0 is needed".into();
                Err(Error::State { op: "load", name: name.into(), reason })
            }
        }
    }

    pub(super) fn rates(&mut self, name: &str, groups: usize) -> Result<Vec<[f64; 2]>> {
        match self.raw(name)?.to_storage()? {
            Storage::F64(rates) if rates.len() == 2 * groups => {
                Ok(rates.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect())
            }
            _ => {
                let reason = format!("two F64 are needed for each of the {groups} groups");
                Err(Error::State { op: "load", name: name.into(), reason })
            }
        }
    }

    /// An error when the file holds something that was not read.
    fn finish(&self) -> Result<()> {
        if let Some(name) = self.file.names().find(|name| !self.used.contains(*name)) {
            let reason = "nothing here has such a tensor".into();
            return Err(Error::State { op: "load", name: name.into(), reason });
        }
        let about_the_file = |key: &str| key.starts_with("amp.");
        match self.file.keys().find(|key| !self.used.contains(*key) && !about_the_file(key)) {
            Some(key) => {
                Err(bad(format!("it holds `{key}`, which nothing here asks for; name what was saved, in its order")))
            }
            None => Ok(()),
        }
    }
}
