//! L-BFGS (Liu and Nocedal, 1989): steps along an estimate of the inverse Hessian times the gradient.

mod course;
mod history;
mod line_search;

use crate::autograd::IdSet;
use crate::param::Parameter;
use crate::precision::F32;
use crate::{Error, Result, Tensor};
use course::{Course, Point, Way};
use history::History;
use line_search::{Limits, NARROWEST, Probe, strong_wolfe};

/// L-BFGS (`torch.optim.LBFGS`), for losses without noise that are evaluated several times a step.
///
/// It is no [`Optimizer`](super::Optimizer): a step is given not gradients but the loss itself, as a closure, and walks it back as
/// often as it needs to. So [`GradScaler::step`](crate::GradScaler::step) does not take it (PyTorch finds out while the program
/// runs), and a loss of an F16 region is refused as [`Tensor::backward`] refuses it without a scaler; BF16 and F32 need none.
/// Its products and sums of all parameters are F32, and a step waits for the device. Its history is not saved with a
/// checkpoint: the first step after one begins anew.
///
/// ```
/// # use amp_core::{optim::Lbfgs, Device, F32, Parameter, Tensor};
/// let x = Parameter::new(&Tensor::<F32>::from_vec(vec![-1.2, 1.0], [2], &Device::cpu())?)?;
/// let valley = || {
///     let (a, b) = (x.tensor().select(0, 0)?, x.tensor().select(0, 1)?);
///     ((b - a.sqr()?)?.sqr()? * 100.0)? + ((1.0 - &a)?).sqr()?
/// };
/// let mut optimizer = Lbfgs::new([x.clone()], 1.0).line_search(true);
/// for _ in 0..3 {
///     optimizer.step(valley)?;
/// }
/// assert!(valley()?.item()? < 1e-6);
/// # Ok::<_, amp_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Lbfgs {
    parameters: Vec<Parameter>,
    lr: f64,
    max_iter: usize,
    max_eval: Option<usize>,
    tolerance_grad: f64,
    tolerance_change: f64,
    line_search: bool,
    history: History,
}

impl Lbfgs {
    /// An optimizer of these parameters whose steps are `lr` times as long as the estimate of the Hessian has them (1 by default in
    /// PyTorch); a parameter given twice counts once.
    pub fn new(parameters: impl IntoIterator<Item = Parameter>, lr: f64) -> Self {
        let mut known = IdSet::default();
        Self {
            parameters: parameters.into_iter().filter(|p| known.insert(p.id())).collect(),
            lr,
            max_iter: 20,
            max_eval: None,
            tolerance_grad: 1e-7,
            tolerance_change: 1e-9,
            line_search: false,
            history: History::new(100),
        }
    }

    /// Directions that a step takes at most (20 by default).
    pub fn max_iter(self, directions: usize) -> Self {
        Self { max_iter: directions, ..self }
    }

    /// Evaluations of the loss after which a step takes no other direction, and a line search looks no further (5/4 of
    /// [`max_iter`](Self::max_iter) by default, as in PyTorch: a `max_iter` of 1 leaves a line search none to move by).
    pub fn max_eval(self, evaluations: usize) -> Self {
        Self { max_eval: Some(evaluations), ..self }
    }

    /// Ends a step when no element of the gradient is larger (1e-7 by default).
    pub fn tolerance_grad(self, largest: f64) -> Self {
        Self { tolerance_grad: largest, ..self }
    }

    /// Ends a step when the parameters, or the loss, change by no more (1e-9 by default).
    pub fn tolerance_change(self, largest: f64) -> Self {
        Self { tolerance_change: largest, ..self }
    }

    /// Directions that are remembered (100 by default), each of twice the size of the parameters.
    pub fn history_size(self, directions: usize) -> Self {
        Self { history: History::new(directions), ..self }
    }

    /// Looks along each direction for a step that meets the strong Wolfe conditions (off by default; PyTorch's
    /// `line_search_fn="strong_wolfe"`).
    pub fn line_search(self, on: bool) -> Self {
        Self { line_search: on, ..self }
    }

    /// Moves the parameters along some directions, each from another evaluation of `loss`; returns the loss before. Changes of
    /// running statistics that evaluations leave pending are made.
    ///
    /// # Errors
    /// [`Error::Argument`] for a learning rate or a tolerance that makes no sense; those of `loss` and of its backward pass.
    pub fn step(&mut self, loss: impl FnMut() -> Result<Tensor<F32>>) -> Result<f64> {
        self.validate()?;
        let parameters = self.parameters.clone();
        let mut course = Course { parameters: &parameters, loss, evaluations: 0 };
        let start = course.point()?;
        let (before, mut now) = (start.loss, Some(start));
        for left in (0..self.max_iter).rev() {
            now = match now {
                Some(point) => self.moved(&mut course, point, left > 0)?,
                None => break,
            };
        }
        Ok(before)
    }

    /// Moves along one direction; returns the point where the next one begins, if there is to be one. An error moves nothing.
    fn moved<L>(&mut self, course: &mut Course<'_, L>, now: Point, goes_on: bool) -> Result<Option<Point>>
    where
        L: FnMut() -> Result<Tensor<F32>>,
    {
        if largest(&now.grad)? <= self.tolerance_grad {
            return Ok(None);
        }
        let length = self.lr * if self.history.has_begun() { 1.0 } else { cautious(&now.grad)? };
        let way = Way::new(course.parameters, self.history.direction(&now.grad)?);
        let moved = self.moved_along(course, &way, now, length, goes_on);
        if moved.is_err() {
            course.go(&way, 0.0)?;
        }
        moved
    }

    /// [`Self::moved`] along a direction that is given.
    fn moved_along<L>(
        &mut self,
        course: &mut Course<'_, L>,
        way: &Way,
        now: Point,
        length: f64,
        goes_on: bool,
    ) -> Result<Option<Point>>
    where
        L: FnMut() -> Result<Tensor<F32>>,
    {
        let start = Probe { t: 0.0, slope: dot(&now.grad, &way.direction)?, point: now };
        if start.slope.is_nan() || start.slope > -self.tolerance_change {
            return Ok(None);
        }
        let found = self.line_search.then(|| self.searched(course, way, &start, length)).transpose()?;
        let length = found.as_ref().map_or(length, |probe| probe.t);
        course.go(way, length)?;
        let next = match found {
            Some(probe) => Some(probe.point),
            None => goes_on.then(|| course.point()).transpose()?,
        };
        let moved = (&way.direction * length)?;
        self.history.remember(start.point.grad, moved.clone());
        let Some(next) = next else { return Ok(None) };
        let change = largest(&moved)?.min((next.loss - start.point.loss).abs());
        Ok((change > self.tolerance_change && course.evaluations < self.most()).then_some(next))
    }

    /// Looks along a direction for a step that meets the conditions.
    fn searched<L>(&self, course: &mut Course<'_, L>, way: &Way, start: &Probe, length: f64) -> Result<Probe>
    where
        L: FnMut() -> Result<Tensor<F32>>,
    {
        let evaluations = self.most().saturating_sub(course.evaluations);
        let limits = Limits { evaluations, width: NARROWEST / largest(&way.direction)? };
        strong_wolfe(start, length, limits, |t| course.probe(way, t))
    }

    /// Evaluations after which a step ends.
    fn most(&self) -> usize {
        self.max_eval.unwrap_or(self.max_iter.saturating_mul(5) / 4)
    }

    fn validate(&self) -> Result<()> {
        let settings = [
            ("the learning rate", self.lr),
            ("tolerance_grad", self.tolerance_grad),
            ("tolerance_change", self.tolerance_change),
        ];
        match settings.into_iter().find(|(_, value)| !(0.0..f64::INFINITY).contains(value)) {
            Some((name, value)) => Err(Error::argument("Lbfgs", name, "finite and at least 0", value)),
            None => Ok(()),
        }
    }
}

fn dot(a: &Tensor<F32>, b: &Tensor<F32>) -> Result<f64> {
    Ok(a.dot(b)?.item()?.into())
}

fn largest(x: &Tensor<F32>) -> Result<f64> {
    Ok(x.abs()?.max_all()?.item()?.into())
}

/// What shortens the first step, before anything is known of the curvature.
fn cautious(grad: &Tensor<F32>) -> Result<f64> {
    Ok((1.0 / f64::from(grad.abs()?.sum_all()?.item()?)).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::Lbfgs;
    use crate::{Device, F16, F32, Parameter, Result, Tensor};

    fn parameter(values: &[f32]) -> Result<Parameter> {
        Parameter::new(&Tensor::<F32>::from_slice(values, [values.len()], &Device::cpu())?)
    }

    #[test]
    fn several_parameters_move_together() -> Result<()> {
        let (a, b, unused) = (parameter(&[3.0, -2.0])?, parameter(&[0.5])?, parameter(&[7.0])?);
        let bowl = || (a.tensor().sqr()?.sum_all()? + ((b.tensor() - 4.0)?.sqr()? * 10.0)?)?.sum_all();
        let given = [a.clone(), b.clone(), a.clone(), unused.clone()];
        let mut optimizer = Lbfgs::new(given, 1.0).line_search(true);
        assert_eq!(optimizer.step(bowl)?, 135.5);
        assert!(bowl()?.item()? < 1e-8, "{:?} {:?}", a.to_vec()?, b.to_vec()?);
        assert_eq!(unused.to_vec()?, [7.0]);
        Ok(())
    }

    /// From 1 to -9 and back: a bracket of 10, which is narrower than the changes that end the step.
    #[test]
    fn what_ends_a_step_does_not_end_a_search() -> Result<()> {
        let x = parameter(&[1.0])?;
        let mut optimizer = Lbfgs::new([x.clone()], 10.0).tolerance_change(20.0).line_search(true);
        optimizer.step(|| (x.tensor().sqr()? * 50.0)?.sum_all())?;
        assert!(x.to_vec()?[0].abs() <= 1e-3, "{:?}", x.to_vec()?);
        Ok(())
    }

    #[test]
    fn an_error_on_the_way_leaves_the_parameters_where_the_direction_began() -> Result<()> {
        for (line_search, failing) in [(true, 2), (true, 3), (false, 2), (false, 3)] {
            let a = parameter(&[3.0, -2.0])?;
            let mut seen = Vec::new();
            let mut optimizer = Lbfgs::new([a.clone()], 0.1).line_search(line_search);
            let result = optimizer.step(|| {
                seen.push(a.to_vec()?);
                let shape = if seen.len() == failing { 3 } else { 2 };
                (a.tensor().sqr()? * Tensor::<F32>::ones([shape], a.device())?)?.sum_all()
            });
            assert!(result.is_err());
            let at = seen.iter().position(|at| *at == a.to_vec().unwrap());
            assert!(at.is_some_and(|at| at + 1 < failing), "{:?} of {seen:?}", a.to_vec()?);
            assert!(optimizer.step(|| a.tensor().sqr()?.sum_all()).is_ok());
        }
        Ok(())
    }

    #[test]
    fn a_loss_of_an_f16_region_is_refused_and_one_that_is_nan_moves_nothing() -> Result<()> {
        let a = parameter(&[3.0, -2.0])?;
        let mut optimizer = Lbfgs::new([a.clone()], 1.0);
        let error = optimizer.step(|| a.to::<F16>()?.mul(2.0)?.to::<F32>()?.sum_all()).unwrap_err();
        assert!(matches!(error, crate::Error::NeedsScaler { .. }), "{error}");
        optimizer.step(|| (a.tensor() * f64::NAN)?.sum_all())?;
        assert_eq!(a.to_vec()?, [3.0, -2.0]);
        let error = Lbfgs::new([a.clone()], -1.0).step(|| a.tensor().sum_all()).unwrap_err().to_string();
        assert_eq!(error, "Lbfgs: the learning rate must be finite and at least 0, found -1");
        Ok(())
    }
}
