//! Tables of embeddings and bags of their rows.

use super::*;

#[test]
fn bags_sum_their_rows_and_train_only_those() -> Result<()> {
    let bag = EmbeddingBag::new(5, 3, &cpu())?.mode(crate::BagMode::Sum).sparse(true);
    assert_eq!(names(&bag), ["weight"]);
    let (rows, offsets) =
        (Tensor::<I64>::from_vec(vec![1, 3, 3], [3], &cpu())?, Tensor::from_vec(vec![0, 1], [2], &cpu())?);
    let table = bag.weight().tensor().detach();
    let expected = [table.select(0, 1)?, table.select(0, 3)?.mul(2.0)?];
    within(&bag.forward(&rows, Some(&offsets))?, &Tensor::stack(&[&expected[0], &expected[1]], 0)?, 1e-6);
    let grads = bag.forward(&rows, Some(&offsets))?.sum_all()?.backward()?;
    let (used, slopes) = grads.rows(bag.weight())?.expect("two rows were used");
    assert_eq!((used.to_vec()?, slopes.to_vec()?), (vec![1, 3], vec![1.0, 1.0, 1.0, 2.0, 2.0, 2.0]));
    Ok(())
}

#[test]
fn the_padding_of_an_embedding_is_0_and_stays_as_it_is() -> Result<()> {
    let d = cpu();
    let indices = Tensor::<I64>::from_slice(&[3, 1, 3, 0, 1, 3], [2, 3], &d)?;
    for sparse in [false, true] {
        let plain = Embedding::new(4, 2, &d)?.sparse(sparse);
        let slopes = |layer: &Embedding| -> Result<Vec<f32>> {
            let y = layer.forward(&indices)?;
            let grads = (&y * randn(&[2, 3, 2]))?.sum_all()?.backward()?;
            grads.get(layer.weight())?.expect("a gradient").to_vec()
        };
        manual_seed(16);
        let mut expected = slopes(&plain)?;
        assert_ne!(expected[6..], [0.0; 2]);
        expected[6..].fill(0.0);
        let padded = Embedding::new(4, 2, &d)?.sparse(sparse).padding(-1)?;
        assert_eq!(padded.forward(&indices)?.select(0, 1)?.select(0, 2)?.to_vec()?, [0.0; 2]);
        assert_ne!(padded.weight().to_vec()?[..6], [0.0; 6]);
        // A row of another value is looked up as it is, and is not trained either.
        padded.weight().set(&plain.weight().tensor().detach())?;
        manual_seed(16);
        assert_eq!(slopes(&padded)?, expected);
        assert_eq!(padded.forward(&indices)?.to_vec()?, plain.forward(&indices)?.to_vec()?);
        let before = padded.weight().to_vec()?;
        let mut opt = Sgd::new(padded.parameters(), 0.1);
        opt.step(&padded.forward(&indices)?.sum_all()?.backward()?)?;
        assert_eq!(padded.weight().to_vec()?[6..], before[6..]);
        assert_ne!(padded.weight().to_vec()?[..2], before[..2]);
    }
    let error = Embedding::new(4, 2, &d)?.padding(4).unwrap_err().to_string();
    assert_eq!(error, "Embedding: index 4 is out of range for size 4");
    Ok(())
}

#[test]
fn an_embeddings_gradient_sums_repeated_rows_in_f32() -> Result<()> {
    // The same values in F16 would overflow: 64000 + 64000. (Scenario 10 of the scaler, where PyTorch reports inf.)
    let d = cpu();
    let table = Embedding::new(3, 1, &d)?;
    let rows = Tensor::<I64>::from_vec(vec![0, 1, 0], [3], &d)?;
    let weights = Tensor::<F32>::from_vec(vec![64000.0, 32.0, 64000.0], [3, 1], &d)?;
    let grads = (table.forward(&rows)? * &weights)?.sum_all()?.backward()?;
    assert_eq!(grads.get(table.weight())?.unwrap().to_vec()?, [128_000.0, 32.0, 0.0]);
    assert!(table.forward(&Tensor::<I64>::from_vec(vec![3], [1], &d)?).is_err());
    Ok(())
}

#[test]
fn a_table_may_be_given_and_shared() -> Result<()> {
    let out = Linear::new(3, 5, &cpu())?.without_bias();
    let table = Embedding::from_parameters(out.weight().clone())?;
    let x = table.forward(&Tensor::<I64>::arange(0, 5, &cpu())?)?;
    assert_eq!(x.to_vec()?, out.weight().to_vec()?);
    let tied = (table, out);
    assert_eq!(names(&tied), ["0.weight"]);
    let line = Parameter::new(&randn(&[4]))?;
    let error = Embedding::from_parameters(line).unwrap_err().to_string();
    assert_eq!(error, "Embedding: the table must have 2 dimensions, found shape [4]");
    Ok(())
}
