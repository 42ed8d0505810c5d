//! Activations.

use crate::{Class, Family, Op};

pub(crate) const OPS: &[Op] = &[
    Op::new(
        "prelu",
        Family::Activation,
        Class::Lower,
        "two-operand op: input and learned weight must share a dtype; so cast both to lower",
    )
    .tensors(&[0, 1])
    .implemented(),
    Op::new("softplus", Family::Activation, Class::Full, "contains exp and log1p").implemented().direct(),
    Op::new("softplus_with", Family::Activation, Class::Full, "contains exp and log1p")
        .torch("softplus")
        .implemented()
        .direct(),
    Op::new("tanh", Family::Activation, Class::Keep, "bounded output and gradient").implemented(),
    Op::new("sigmoid", Family::Activation, Class::Keep, "bounded output").implemented(),
    Op::new("relu", Family::Activation, Class::Keep, "exact").implemented().commutes().direct(),
    Op::new("relu6", Family::Activation, Class::Keep, "exact").implemented(),
    Op::new("leaky_relu", Family::Activation, Class::Keep, "near exact").implemented(),
    Op::new("elu", Family::Activation, Class::Keep, "contains exp of negatives only").implemented(),
    Op::new("selu", Family::Activation, Class::Keep, "contains exp of negatives only").implemented(),
    Op::new("celu", Family::Activation, Class::Keep, "contains exp of negatives only").implemented(),
    Op::new(
        "gelu",
        Family::Activation,
        Class::Keep,
        "Apex forces fp32; PyTorch leaves neutral (kernel computes in fp32 internally)",
    )
    .implemented(),
    Op::new(
        "gelu_tanh",
        Family::Activation,
        Class::Keep,
        "Apex forces fp32; PyTorch leaves neutral (kernel computes in fp32 internally)",
    )
    .torch("gelu")
    .implemented(),
    Op::new("silu", Family::Activation, Class::Keep, "kernel computes in fp32 internally").implemented(),
    Op::new("mish", Family::Activation, Class::Keep, "kernel computes in fp32 internally").implemented(),
    Op::new("hardswish", Family::Activation, Class::Keep, "piecewise linear").implemented(),
    Op::new("hardtanh", Family::Activation, Class::Keep, "exact").implemented(),
    Op::new("hardsigmoid", Family::Activation, Class::Keep, "piecewise linear").implemented(),
    Op::new("hardshrink", Family::Activation, Class::Keep, "exact").implemented(),
    Op::new("softshrink", Family::Activation, Class::Keep, "exact").implemented(),
    Op::new("tanhshrink", Family::Activation, Class::Keep, "x-tanh(x) cancellation").implemented(),
    Op::new("softsign", Family::Activation, Class::Keep, "bounded output").implemented(),
    Op::new("logsigmoid", Family::Activation, Class::Keep, "stable formulation").implemented(),
    Op::new("log_sigmoid", Family::Activation, Class::Keep, "stable formulation").torch("logsigmoid").implemented(),
    Op::new("threshold", Family::Activation, Class::Keep, "exact").implemented(),
    Op::new("glu", Family::Activation, Class::Keep, "sigmoid gate").implemented(),
    Op::new("rrelu", Family::Activation, Class::Keep, "near exact").implemented(),
];
