use super::{CpuBackend, view};
use crate::Result;
use crate::backend::{Buffer, Operand, Recurrent};
use amp_cpu::DType;

impl Recurrent for CpuBackend {
    fn lstm_cell(&self, from_inputs: Operand<'_>, from_state: Operand<'_>, c: Operand<'_>) -> Result<[Buffer; 2]> {
        const OP: &str = "lstm_cell";
        let (inputs, state, c) = (view(OP, from_inputs)?, view(OP, from_state)?, view(OP, c)?);
        Ok(amp_cpu::lstm_cell(&inputs, &state, &c).map(Buffer::new))
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

    fn gru_cell(
        &self,
        from_inputs: Operand<'_>,
        from_state: Operand<'_>,
        h: Operand<'_>,
        out: DType,
    ) -> Result<[Buffer; 2]> {
        const OP: &str = "gru_cell";
        let (inputs, state, h) = (view(OP, from_inputs)?, view(OP, from_state)?, view(OP, h)?);
        Ok(amp_cpu::gru_cell(&inputs, &state, &h, out).map(Buffer::new))
    }

    fn gru_cell_grad(
        &self,
        gates: Operand<'_>,
        h: Operand<'_>,
        grad: Operand<'_>,
        out: [DType; 3],
    ) -> Result<[Buffer; 3]> {
        const OP: &str = "gru_cell";
        let (gates, h, grad) = (view(OP, gates)?, view(OP, h)?, view(OP, grad)?);
        Ok(amp_cpu::gru_cell_grad(&gates, &h, &grad, out).map(Buffer::new))
    }
}
