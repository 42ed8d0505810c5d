//! What is assigned through exclusive references: the variable that they lead into holds it, and the rest, in F32.

use super::*;

struct Step(Linear);

impl Step {
    #[autocast(f16)]
    fn run(&self, x: &T) -> Result<T> {
        self.0.forward(x)
    }

    #[autocast(f16)]
    fn both(&self, x: &T) -> Result<(T, T)> {
        let y = self.0.forward(x)?;
        Ok((y.relu()?, y))
    }
}

#[autocast(f16)]
fn of_a_variable(start: &Linear, steps: &[Step], x: &T) -> Result<T> {
    let mut h = start.forward(x)?;
    for step in steps {
        let state = &mut h;
        *state = step.run(state)?;
    }
    Ok(h)
}

#[autocast(f16)]
fn of_elements(start: &Linear, steps: &[Step], x: &T) -> Result<Vec<T>> {
    let mut hs = vec![start.forward(x)?; 2];
    for (h, step) in hs.iter_mut().zip(steps) {
        *h = step.run(h)?;
    }
    Ok(hs)
}

#[autocast(f16)]
fn of_a_collection(start: &Linear, norm: &LayerNorm, xs: &[T]) -> Result<Vec<T>> {
    let mut hs: Vec<_> = xs.iter().map(|x| start.forward(x)).collect::<Result<_>>()?;
    for h in hs.iter_mut() {
        *h = norm.forward(h)?;
    }
    for h in &mut hs {
        *h = (&*h + &xs[0])?;
    }
    hs[0] = norm.forward(&hs[0])?;
    Ok(hs)
}

#[autocast(f16)]
fn of_the_last(start: &Linear, x: &T) -> Result<Vec<T>> {
    let mut hs = vec![start.forward(x)?];
    hs.push(start.forward(&hs[0])?);
    if let Some(last) = hs.last_mut() {
        *last = x.exp()?;
    }
    Ok(hs)
}

#[test]
fn what_references_lead_into_holds_f32() -> Result<()> {
    let fc = || Linear::new(4, 4, &Device::cpu());
    let (start, steps, norm) = (fc()?, [Step(fc()?), Step(fc()?)], LayerNorm::new([4], &Device::cpu())?);
    let (x, y) = (random([2, 4])?, random([2, 4])?);
    let narrow = |fc: &Linear, x: &T| fc.forward(&x.to::<F16>()?)?.to::<F32>();
    let first = narrow(&start, &x)?;
    let [one, other] = [narrow(&steps[0].0, &first)?, narrow(&steps[1].0, &first)?];
    assert_eq!(bits(&of_a_variable(&start, &steps, &x)?), bits(&narrow(&steps[1].0, &one)?));
    let hs = of_elements(&start, &steps, &x)?;
    assert_eq!([bits(&hs[0]), bits(&hs[1])], [bits(&one), bits(&other)]);
    let hs = of_a_collection(&start, &norm, &[x.clone(), y.clone()])?;
    let by_hand = [norm.forward(&(norm.forward(&first)? + &x)?)?, (norm.forward(&narrow(&start, &y)?)? + &x)?];
    assert_eq!([bits(&hs[0]), bits(&hs[1])], by_hand.each_ref().map(bits));
    let hs = of_the_last(&start, &x)?;
    assert_eq!([bits(&hs[0]), bits(&hs[1])], [bits(&first), bits(&x.exp()?)]);
    Ok(())
}

#[autocast(f16)]
fn scanned(start: &Linear, steps: &[Step], x: &T) -> Result<Vec<T>> {
    let skips = steps.iter().scan(start.forward(x)?, |h, step| {
        Some(step.both(h).map(|(next, skip)| {
            *h = next;
            skip
        }))
    });
    skips.collect()
}

#[autocast(f16)]
fn scanned_by_layers(layers: &[Linear], x: &T) -> Result<Vec<T>> {
    let outs = layers.iter().scan(x.clone(), |h, layer| {
        let y = match layer.forward(h) {
            Ok(y) => y,
            Err(e) => return Some(Err(e)),
        };
        *h = y.relu().ok()?;
        Some(Ok(y))
    });
    outs.collect()
}

#[autocast(f16)]
fn scanned_in_an_option(layers: &[Linear], x: &T) -> Result<Vec<T>> {
    let outs = layers.iter().scan(Some(x.clone()), |state, layer| {
        let h = state.take()?;
        let next = layer.forward(&h).inspect(|y| *state = Some(y.clone()));
        Some(next)
    });
    outs.collect()
}

#[test]
fn what_a_scan_carries_and_gives_is_f32() -> Result<()> {
    let fc = || Linear::new(4, 4, &Device::cpu());
    let (start, steps, x) = (fc()?, [Step(fc()?), Step(fc()?)], random([2, 4])?);
    let narrow = |fc: &Linear, x: &T| fc.forward(&x.to::<F16>()?)?.to::<F32>();
    let one = narrow(&steps[0].0, &narrow(&start, &x)?)?;
    let two = narrow(&steps[1].0, &one.relu()?)?;
    assert_eq!(scanned(&start, &steps, &x)?.iter().map(bits).collect::<Vec<_>>(), [bits(&one), bits(&two)]);
    let layers = [start, steps.into_iter().next().expect("two").0];
    let one = narrow(&layers[0], &x)?;
    let [two, plain] = [narrow(&layers[1], &one.relu()?)?, narrow(&layers[1], &one)?];
    let by_layers = scanned_by_layers(&layers, &x)?;
    assert_eq!(by_layers.iter().map(bits).collect::<Vec<_>>(), [bits(&one), bits(&two)]);
    let in_an_option = scanned_in_an_option(&layers, &x)?;
    assert_eq!(in_an_option.iter().map(bits).collect::<Vec<_>>(), [bits(&one), bits(&plain)]);
    Ok(())
}
