use crate::args::{GruArgs, GruGradArgs, LstmArgs, LstmGradArgs};
use crate::device::{Gpu, Memory};
use crate::module::Family::Recurrent as FAMILY;
use crate::operand::{Operand, tag};
use amp_core::Result;
use amp_core::backend::{Buffer, DType, Operand as CoreOperand, Recurrent};

impl Recurrent for Gpu {
    fn lstm_cell(
        &self,
        from_inputs: CoreOperand<'_>,
        from_state: CoreOperand<'_>,
        c: CoreOperand<'_>,
    ) -> Result<[Buffer; 2]> {
        const OP: &str = "lstm_cell";
        let n = c.layout.count();
        let (states, gates) = (self.memory(OP, 2 * n, DType::F32)?, self.memory(OP, 4 * n, DType::F32)?);
        let args = LstmArgs {
            from_inputs: Operand::new(self, OP, from_inputs)?,
            from_state: Operand::new(self, OP, from_state)?,
            c: Operand::new(self, OP, c)?,
            states: states.address(),
            gates: gates.address(),
            n: n as i64,
            width: c.layout.shape[1] as i64,
        };
        self.launch(FAMILY, OP, None, self.spread(n), args)?;
        Ok([states, gates].map(Memory::into_buffer))
    }

    fn lstm_cell_grad(
        &self,
        gates: CoreOperand<'_>,
        states: CoreOperand<'_>,
        c: CoreOperand<'_>,
        grad: CoreOperand<'_>,
        out: DType,
    ) -> Result<[Buffer; 2]> {
        const OP: &str = "lstm_cell_grad";
        let n = c.layout.count();
        let (of_gates, of_c) = (self.memory(OP, 4 * n, out)?, self.memory(OP, n, DType::F32)?);
        let args = LstmGradArgs {
            gates: Operand::new(self, OP, gates)?,
            states: Operand::new(self, OP, states)?,
            c: Operand::new(self, OP, c)?,
            grad: Operand::new(self, OP, grad)?,
            of_gates: of_gates.address(),
            of_c: of_c.address(),
            n: n as i64,
            width: c.layout.shape[1] as i64,
            out: tag(out),
        };
        self.launch(FAMILY, OP, None, self.spread(n), args)?;
        Ok([of_gates, of_c].map(Memory::into_buffer))
    }

    fn gru_cell(
        &self,
        from_inputs: CoreOperand<'_>,
        from_state: CoreOperand<'_>,
        h: CoreOperand<'_>,
        out: DType,
    ) -> Result<[Buffer; 2]> {
        const OP: &str = "gru_cell";
        let n = h.layout.count();
        let (next, gates) = (self.memory(OP, n, out)?, self.memory(OP, 4 * n, DType::F32)?);
        let args = GruArgs {
            from_inputs: Operand::new(self, OP, from_inputs)?,
            from_state: Operand::new(self, OP, from_state)?,
            h: Operand::new(self, OP, h)?,
            next: next.address(),
            gates: gates.address(),
            n: n as i64,
            width: h.layout.shape[1] as i64,
            out: tag(out),
        };
        self.launch(FAMILY, OP, None, self.spread(n), args)?;
        Ok([next, gates].map(Memory::into_buffer))
    }

    fn gru_cell_grad(
        &self,
        gates: CoreOperand<'_>,
        h: CoreOperand<'_>,
        grad: CoreOperand<'_>,
        out: [DType; 3],
    ) -> Result<[Buffer; 3]> {
        const OP: &str = "gru_cell_grad";
        let n = h.layout.count();
        let [of_inputs, of_state, of_h] =
            [(3, out[0]), (3, out[1]), (1, out[2])].map(|(k, out)| self.memory(OP, k * n, out));
        let (of_inputs, of_state, of_h) = (of_inputs?, of_state?, of_h?);
        let args = GruGradArgs {
            gates: Operand::new(self, OP, gates)?,
            h: Operand::new(self, OP, h)?,
            grad: Operand::new(self, OP, grad)?,
            of_inputs: of_inputs.address(),
            of_state: of_state.address(),
            of_h: of_h.address(),
            n: n as i64,
            width: h.layout.shape[1] as i64,
            out: out.map(tag),
        };
        self.launch(FAMILY, OP, None, self.spread(n), args)?;
        Ok([of_inputs, of_state, of_h].map(Memory::into_buffer))
    }
}
