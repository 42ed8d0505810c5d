use super::{CpuBackend, view};
use crate::Result;
use crate::backend::{Buffer, Operand, Recurrent};
use amp_cpu::DType;

impl Recurrent for CpuBackend {
    fn lstm_cell(
        &self,
        from_inputs: Operand<'_>,
        from_state: Operand<'_>,
        c: Operand<'_>,
    ) -> Result<Option<[Buffer; 2]>> {
        const OP: &str = "lstm_cell";
        let (inputs, state, c) = (view(OP, from_inputs)?, view(OP, from_state)?, view(OP, c)?);
        Ok(Some(amp_cpu::lstm_cell(&inputs, &state, &c).map(Buffer::new)))
    }

    fn lstm_cell_grad(
        &self,
        gates: Operand<'_>,
        states: Operand<'_>,
        c: Operand<'_>,
        grad: Operand<'_>,
        out: DType,
    ) -> Result<[Buffer; 2]> {
        const OP: &str = "lstm_cell";
        let (gates, states, c, grad) = (view(OP, gates)?, view(OP, states)?, view(OP, c)?, view(OP, grad)?);
        Ok(amp_cpu::lstm_cell_grad(&gates, &states, &c, &grad, out).map(Buffer::new))
    }
}
