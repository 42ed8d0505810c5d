//! Recurrent layers.

use super::*;

#[test]
fn recurrent_layers_go_on_from_a_state() -> Result<()> {
    manual_seed(13);
    let d = cpu();
    let x = randn(&[2, 6, 3]);
    let (head, tail) = (x.narrow(1, 0, 4)?, x.narrow(1, 4, 2)?);
    let lstm = Lstm::stacked(3, 5, 2, false, &d)?;
    let (whole, end) = lstm.forward(&x)?;
    let (_, middle) = lstm.forward(&head)?;
    let (rest, last) = lstm.forward_from(&tail, &middle)?;
    within(&rest, &whole.narrow(1, 4, 2)?, 1e-6);
    within(&last.c, &end.c, 1e-6);
    let gru = Gru::new(3, 5, &d)?;
    let (whole, _) = gru.forward(&x)?;
    let (_, middle) = gru.forward(&head)?;
    within(&gru.forward_from(&tail, &middle)?.0, &whole.narrow(1, 4, 2)?, 1e-6);
    let (half, _) = gru.forward(&x.to::<F16>()?)?;
    within(&half.to()?, &whole, 5e-3);
    let both = Lstm::stacked(3, 5, 1, true, &d)?;
    assert_eq!(both.forward(&x)?.0.dims(), [2, 6, 10]);
    assert!(gru.forward(&randn(&[2, 0, 3])).is_err());
    let cell = GruCell::new(3, 5, &d)?;
    let error = |y: Result<Tensor<F32>>| y.unwrap_err().to_string();
    assert_eq!(error(cell.forward(&x)), "GruCell: the input must have shape [N, 3], found [2, 6, 3]");
    let other = cell.forward_from(&randn(&[2, 3]), &randn(&[3, 5]));
    assert_eq!(error(other), "GruCell: the state must have shape [2, 5], found [3, 5]");
    Ok(())
}

#[test]
fn padded_sequences_are_as_they_are_alone() -> Result<()> {
    manual_seed(13);
    let (d, lengths) = (cpu(), [4, 1, 6]);
    let x = randn(&[3, 6, 3]);
    // What stands in the padding does not matter.
    let padded = first(&lengths, 6)?.unsqueeze(2)?.where_(&x, f64::NAN)?.tracked();
    let (lstm, gru, rnn) =
        (Lstm::stacked(3, 5, 2, true, &d)?, Gru::stacked(3, 5, 2, true, &d)?, Rnn::stacked(3, 5, 2, true, &d)?);
    let (y, end) = lstm.forward_padded(&padded, &lengths)?;
    let (gru_y, gru_end) = gru.forward_padded(&padded, &lengths)?;
    let (rnn_y, rnn_end) = rnn.forward_padded(&padded, &lengths)?;
    for (i, &length) in lengths.iter().enumerate() {
        let alone = x.narrow(0, i, 1)?.narrow(1, 0, length)?;
        let (expected, last) = lstm.forward(&alone)?;
        let (of_gru, of_rnn) = (gru.forward(&alone)?, rnn.forward(&alone)?);
        for (y, expected) in [(&y, &expected), (&gru_y, &of_gru.0), (&rnn_y, &of_rnn.0)] {
            let y = y.narrow(0, i, 1)?;
            within(&y.narrow(1, 0, length)?, expected, 1e-6);
            assert_eq!(y.narrow(1, length, 6 - length)?.count_nonzero([])?.item()?, 0);
        }
        let ends = [(&end.h, &last.h), (&end.c, &last.c), (&gru_end, &of_gru.1), (&rnn_end, &of_rnn.1)];
        for (end, expected) in ends {
            within(&end.narrow(1, i, 1)?, expected, 1e-6);
        }
    }
    let grads = ((y.sum_all()? + gru_y.sum_all()?)? + rnn_y.sum_all()?)?.backward()?;
    assert!(grads.get(&padded)?.expect("x takes part").to_vec()?.iter().all(|v| v.is_finite()));
    for parameter in lstm.parameters() {
        assert!(grads.get(&parameter)?.expect("every parameter takes part").to_vec()?.iter().all(|v| v.is_finite()));
    }
    let (_, middle) = gru.forward_padded(&x.narrow(1, 0, 2)?, &[2, 1, 2])?;
    assert_eq!(gru.forward_padded_from(&x.narrow(1, 2, 4)?, &[2, 1, 4], &middle)?.0.dims(), [3, 4, 10]);
    let error = lstm.forward_padded(&x, &[4, 0, 6]).unwrap_err().to_string();
    assert_eq!(error, "Lstm: lengths must be 3 numbers from 1 to 6, one for each sequence, found [4, 0, 6]");
    assert!(lstm.forward_padded(&x, &[4, 7, 6]).is_err() && gru.forward_padded(&x, &[4, 1]).is_err());
    Ok(())
}
